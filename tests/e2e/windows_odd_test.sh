#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A stream and what is not meant for it: senders that go before it begins, a second receiver, a second sender of one state, strangers
# that speak for its members, daemons that are restarted in an orderly way, a full disk, a sender that stands still for longer than
# the deadline. What is refused names why and changes nothing: every tuple is in one window.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

# send NAME SENDER BLOCKS: sets $sender.
send() {
    spawn "$scratch/$1.send$2" "h$2" ask-send --follow --task "$1" --to h4 - < <(lines_of "$2" "$3")
    sender=$spawned
}

# tell JSON: a call of a member of stream "calm", or who says that he is one, from h3.
tell() {
    on h3 env ASK_TLS="$ASK_LAB_DIR/$name/tls/h3" "$build/tests/ask-e2e-call" 198.18.4.2:4791 ask.v1.Agent/FollowStream "$1" >"$scratch/told" 2>&1
}

# told_off PATTERN JSON
told_off() {
    ! tell "$2" || fail "not refused: ${2:0:200}: $(cat "$scratch/told")"
    grep -qE "$1" "$scratch/told" || fail "${2:0:200} is refused by other words: $(cat "$scratch/told")"
}

strangers() {
    local -r version=$(($(sed -nE 's/^#define ASK_WIRE_VERSION +(0x[0-9A-F]+)u$/\1/p' "$root/lib/abi/wire.h")))
    local -r member=$(($(jq -r .member "$scratch/calm.state")))
    local -r nonce=$(printf '%u' "$(jq -r .nonce "$scratch/calm/.ask-stream")")
    local -r as="\"name\": \"calm\", \"host\": $((0xC6120302)), \"wireVersion\": $version"
    local -r known=$(printf '%u' "$member")
    told_off 'NOT_FOUND.*no stream nosuch' "{\"name\": \"nosuch\", \"member\": \"7\", \"wireVersion\": $version}"
    told_off 'INVALID_ARGUMENT.*must not be 0' "{$as, \"member\": \"0\"}"
    told_off 'PERMISSION_DENIED.*that member is not at .*h3' "{$as, \"member\": \"$known\"}"
    told_off 'PERMISSION_DENIED.*that member is not at .*h3' "{$as, \"member\": \"$known\", \"lost\": true}"
    told_off 'PERMISSION_DENIED.*that member is not at .*h3' "{$as, \"member\": \"$known\", \"leaves\": true, \"host\": $((0xC6120102))}"
    told_off 'FAILED_PRECONDITION.*another one' "{$as, \"member\": \"7\", \"nonce\": \"7\"}"
    told_off 'FAILED_PRECONDITION.*has let go of all through' "{$as, \"member\": \"7\", \"nonce\": \"$nonce\", \"committed\": \"99999999999\"}"
    told_off 'INVALID_ARGUMENT.*names windows that cannot be' "{$as, \"member\": \"7\", \"keeps\": [\"18446744073709551615\"]}"
    told_off 'INVALID_ARGUMENT.*names windows that cannot be' "{$as, \"member\": \"7\", \"keeps\": [$(seq -s, 1 10000)]}"
    # One that is to come: what has been let go of may be kept by anybody, and each second's window soon has.
    told_off 'FAILED_PRECONDITION.*is no member of it' "{$as, \"member\": \"7\", \"keeps\": [\"$(($(date +%s) + 3))\"]}"
    # Of nobody that is known, this says nothing.
    tell "{$as, \"member\": \"7\", \"lost\": true}" || fail "who is no member cannot go: $(cat "$scratch/told")"
}

# Two that share a pipe would each get parts of lines.
shared_pipe() {
    open_pipe "$scratch/pipe"
    spawn "$scratch/calm.send3" h3 ask-send --follow --task calm --to h4 - <&9
    local -r third=$spawned
    wait_for 10 locked "$scratch/pipe"
    refused 5 'another ask-send follows this pipe' h3 ask-send --follow --task calm --to h4 "$scratch/pipe"
    # One that is told to end before it is in a window is interrupted, and has nothing to leave.
    some_lines 3 1 10 >&9
    wait_for 20 has_line calm s3-000010
    kill -TERM "$third"
    ends "$third" 0 calm.send3
    exec 9>&-
}

# no_members NAME: its receiver knows of none.
no_members() {
    on h4 askctl streams --json | jq -e --arg name "$1" 'any(.[]; .name == $name and .members == [])' >/dev/null
}

# Others' receivers, senders and calls while it runs, and each daemon told to end and started again.
calm() {
    open_stream calm --senders 2 --from h1,h2,h3
    wait_for 10 test -e "$scratch/calm/.ask-stream"
    # Those who go before all are there are not waited for. Their input is a pipe that is open, and silent, for longer than they live.
    on h1 timeout --foreground -s KILL 0.6 ask-send --follow --task calm --to h4 - < <(sleep 5) && fail "a sender ended by itself"
    on h3 timeout --foreground -s INT 0.6 ask-send --follow --task calm --to h4 - < <(sleep 5) && fail "a sender ended by itself"
    # The receiver hears of it a moment later; until then they count.
    wait_for 20 no_members calm
    # It is there before its reader is.
    : >"$scratch/log"
    lines_of 1 60 >>"$scratch/log" &
    local -r writer=$!
    spawn "$scratch/calm.send1" h1 ask-send --follow --task calm --to h4 --state "$scratch/calm.state" "$scratch/log" </dev/null
    local -r first=$spawned
    send calm 2 60
    local -r second=$sender
    wait_for 10 committed calm 1
    refused 5 'writes to it' h4 ask-recv --task calm --every 1s --senders 2 --out "$scratch/calm"
    refused 5 'name is in use' h4 ask-recv --task calm --every 1s --senders 2 --out "$scratch/other"
    refused 2 "is another stream's" h4 ask-recv --task calm --every 2s --senders 2 --out "$scratch/other"
    refused 5 'another ask-send is this member' h1 ask-send --follow --task calm --to h4 --state "$scratch/calm.state" "$scratch/log"
    printf 'no state\n' >"$scratch/damaged"
    refused 3 'damaged' h1 ask-send --follow --task calm --to h4 --state "$scratch/damaged" "$scratch/log"
    strangers
    shared_pipe
    local node
    for node in h1 h4 sw h2; do lab_do restart "$node"; done
    wait "$writer"
    wait_for 30 log_is_read calm "$scratch/log"
    kill -TERM "$first"
    ends "$first" 0 calm.send1
    ends "$second" 0 calm.send2
    kill -INT "$receiver"
    ends "$receiver" 130 calm.recv
    exact calm 1=1-600 2=1-600 3=1-10
    pass "strangers, and daemons that are restarted"
}

# A sender that stands still for longer than the deadline is left out of what was open, named, and comes back. The deadline is
# longer than anything stands still on a busy machine: the other one is not to be left out.
left_out() {
    open_stream away --senders 2 --deadline 4 --allow-incomplete
    follow away h1 send1 - < <(lines_until_enough away 1)
    local -r first=$sender
    follow away h2 send2 - < <(lines_until_enough away 2)
    local -r second=$sender
    wait_for 10 committed away 1
    kill -STOP "$second"
    wait_for 20 committed away 1 incomplete
    kill -CONT "$second"
    # What it reads before it has heard of that is in the windows that went without it.
    wait_for 20 grep -q "was committed without this sender's tuples" "$scratch/away.send2.err"
    enough away
    ends "$first" 0 away.send1
    ends "$second" 13 away.send2
    on h4 askctl task finish away >/dev/null
    ends "$receiver" 20 away.recv
    grep -q $'incomplete.*h2 ' "$scratch/away/windows.tsv" || fail "nobody is named: $(cat "$scratch/away/windows.tsv")"
    exact away "$(all_of away 1)"
    # Of the second one the last line of all, which came after that.
    has_line away "s2-$(printf %06d "$(<"$scratch/away.lines.2")")" ||
        fail "sender 2 is not back: $(cat "$scratch/away.send2.err")"
    pass "a sender that stands still"
}

# cancelled_run NAME: the run that was begun last has been, and had not ended meanwhile.
cancelled_run() {
    local run
    run=$(on h4 askctl tasks --json | jq -r --arg name "$1" '[.[].id | select(startswith($name + "-w"))][0] // ""')
    [[ -n $run ]] && on h4 askctl task cancel "$run" >/dev/null
}

# A full disk holds windows back; the run of one is cancelled.
full() {
    mkdir "$scratch/full"
    mount -t tmpfs -o size=300k ask-full "$scratch/full"
    mkdir "$scratch/full/out"
    ln -s full/out "$scratch/disk"
    open_stream disk --senders 1 --deadline 3
    send disk 3 70
    local -r only=$sender
    wait_for 10 committed disk 2
    wait_for 10 cancelled_run disk
    wait_for 10 committed disk 3
    head -c 1M /dev/zero >"$scratch/full/else" 2>/dev/null || true
    wait_for 10 grep -q 'is not committed.*No space left' "$scratch/disk.recv.err"
    rm "$scratch/full/else"
    ends "$only" 0 disk.send3
    kill -INT "$receiver"
    ends "$receiver" 130 disk.recv
    exact disk 3=1-700
    pass "a full disk"
}

on_exit() {
    umount -l "$scratch/full" 2>/dev/null || true
}

# What an agent that stops leaves on the switch goes with its lease.
printf 'lease_seconds = 5\n' >"$scratch/switch.toml"
lab_up --hosts 4 --config-switch "$scratch/switch.toml"
calm
beside_each_other left_out full
wait_for 20 no_tasks h1 h2 h3 h4 sw
