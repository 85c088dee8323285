#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Who is in a stream, and how it ends: a sender that is killed and keeps nothing, and comes back as another member; senders that
# come and go as they like, by token or by name; windows on standard output; `askctl task finish`.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/streams.sh"

# A pipe that is killed takes with it what it had: it is named in the windows that it was in, and in none after these. The
# deadline is longer than anything stands still on a busy machine: the first one is not to be left out.
killed() {
    open_stream gone --senders 2 --deadline 4 --allow-incomplete
    follow gone h1 send1 - < <(lines_until_enough gone 1)
    local -r first=$sender
    follow gone h2 send2 - < <(lines_until_enough gone 2)
    local -r dying=$sender
    wait_for 10 committed gone 1
    kill -KILL "$dying"
    wait_for 20 committed gone 1 incomplete
    follow gone h2 send3 - < <(lines_of 3 20)
    ends "$sender" 0 gone.send3
    enough gone
    ends "$first" 0 gone.send1
    on h4 askctl task finish gone >/dev/null
    ends "$receiver" 20 gone.recv
    exact gone "$(all_of gone 1)" 3=1-200
    rows gone | awk -F'\t' '$4 == "incomplete" && seen && !before { exit 1 } { before = $4 == "incomplete" } before { seen = 1 }' ||
        fail "windows in between are whole: $(rows gone)"
    rows gone incomplete | awk -F'\t' '$8 !~ /h2/ { exit 1 }' || fail "it is not named: $(rows gone incomplete)"
    grep -q 'incomplete: .*h2' "$scratch/gone.recv.err" || fail "nor on standard error: $(cat "$scratch/gone.recv.err")"
    # What was committed before has all that it gave until then.
    tables gone | sed -n 's/^s2-0*\([0-9]*\)\t1$/\1/p' | sort -n | awk '$1 != NR { exit 1 }' || fail "a window before lacks lines of h2"
    pass "a sender that is killed"
}

# No first window waits for anybody; whoever has the token comes and goes.
any() {
    printf 'shown by whoever may come\n' >"$scratch/token"
    local -r token=(--token-file "$scratch/token")
    open_stream any --senders any "${token[@]}"
    wait_for 10 committed any 1 empty
    refused 7 'not for .*token' h1 ask-send --follow --task any --to h4 -
    follow any h1 send1 "${token[@]}" - < <(lines_of 1 25)
    local -r first=$sender
    wait_for 10 has_line any s1-000001
    follow any h2 send2 "${token[@]}" - < <(lines_of 2 25)
    ends "$first" 0 any.send1
    ends "$sender" 0 any.send2
    local -r empty=$(rows any empty | wc -l)
    wait_for 10 committed any $((empty + 1)) empty
    follow any h1 send3 "${token[@]}" - < <(lines_of 3 5)
    ends "$sender" 0 any.send3
    on h4 askctl task finish any >/dev/null
    ends "$receiver" 0 any.recv
    exact any 1=1-250 2=1-250 3=1-50
    ! rows any | grep -qvE $'\t(whole|empty)\t' || fail "windows are neither whole nor empty: $(rows any)"
    pass "senders that come and go"
}

# output NAME: what has come to standard output.
output() {
    cat "$scratch/$1.recv.out"
}

printed() {
    output "$1" | grep -q "$2"$'\t1$'
}

to_output() {
    spawn "$scratch/$1.recv" h4 ask-recv --task "$1" --every 1s "${@:2}" </dev/null
    receiver=$spawned
}

# A sender whose pipe stays open is told that the stream ends.
finished() {
    local -r held=$scratch/out.fifo
    to_output out --senders any --from h1,h2
    mkfifo "$held"
    exec {pipe}<>"$held"
    follow out h2 send2 - <"$held"
    local -r open=$sender
    follow out h1 send1 - < <(lines_of 1 15)
    some_lines 2 1 50 >&"$pipe"
    wait_for 10 printed out s2-000050
    refused 7 'not for .*h3' h3 ask-send --follow --task out --to h4 -
    some_lines 2 51 60 >&"$pipe"
    wait_for 10 printed out s2-000060
    ends "$sender" 0 out.send1
    on h4 askctl task finish out >/dev/null
    ends "$receiver" 0 out.recv
    ends "$open" 0 out.send2
    output out | awk -F'\t' 'NF != 3 || $1 !~ /^20[-0-9]+T[0-9:]+Z$/ || $1 < before { print; exit 1 } { before = $1 }' >"$scratch/out.wrong" ||
        fail "a line that is none: $(cat "$scratch/out.wrong")"
    cmp -s <(some_lines 1 1 150 && some_lines 2 1 60) <(output out | cut -f 2- | LC_ALL=C sort) ||
        fail "not what was sent: $(output out | wc -l) lines"
    pass "windows on standard output, and a stream that is finished"
}

# Nobody knows what an ask-recv without a directory had written.
torn() {
    to_output torn --senders 1
    wait_for 10 stream_is_open torn
    follow torn h3 send --deadline 4 - < <(lines_of 1 100)
    wait_for 10 printed torn s1-000001
    kill -KILL "$receiver"
    exit_of "$receiver"
    wait_for 10 stream_is_gone torn
    to_output torn --senders 1
    wait_for 15 gone "$sender"
    ends "$sender" 8 torn.send
    grep -q 'its directory is another one than the one that h3 .* sends to' "$scratch/torn.send.err" || fail "it says: $(cat "$scratch/torn.send.err")"
    kill -INT "$receiver"
    ends "$receiver" 130 torn.recv
    pass "standard output that is torn"
}

# gone PID: it has ended.
gone() {
    ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null
}

stream_is_open() {
    on h4 askctl streams --json | jq -e --arg id "$1" 'any(.[]; .name == $id)' >/dev/null
}

stream_is_gone() {
    on h4 askctl streams --json | jq -e --arg id "$1" 'all(.[]; .name != $id)' >/dev/null
}

# What a killed sender's task leaves on the switch goes with its lease.
printf 'lease_seconds = 5\n' >"$scratch/switch.toml"
lab_up --hosts 4 --config-switch "$scratch/switch.toml"
beside_each_other killed any finished torn
wait_for 20 no_tasks h1 h2 h3 h4 sw
