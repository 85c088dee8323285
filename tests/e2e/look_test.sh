#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What an operator sees and does while a task runs and afterwards: live figures, what the switch holds, why a sender gave
# up, how the last tasks ended, and a task cancelled.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# tasks_show JQ: askctl of the receiver's host, live tasks only.
tasks_show() {
    on h3 askctl tasks --json | jq -e "$1" >/dev/null
}

# looked_again FILE: there are two documents in it, whole or not.
looked_again() {
    (($(grep -cE '^[][{}]+$' "$1") > 2)) || [[ $(grep -c '^$' "$1") -gt 0 ]]
}

# looked_thrice FILE: at the task that runs.
looked_thrice() {
    (($(grep -c '^live ' "$1") > 2))
}

# Keys of a slot each, and one too long for any: 3 are added up on the switch, the fourth comes here. One sender has
# sent all, the other holds the task open.
while_it_runs() {
    local node each
    local -a words
    receive live live --senders 2 --geometry 16 --no-back
    hold live h2 live
    for _ in 1 2 3; do printf 'a\t1\nb\t10\nc\t100\nmuch-too-long-for-a-slot\t7\n'; done >"$scratch/live.tsv"
    spawn "$scratch/first" h1 ask-send --task live --to h3 --merge-window 0 "$scratch/live.tsv"
    local -r first=$spawned
    wait_for 20 tasks_show 'any(.[]; .id == "live" and .stats.tuples_long == 3 and .stats.tuples_switch == 9)'
    on h3 askctl tasks | grep -qE '^live .* 12 +9 +3 ' || fail "tasks do not show what is where: $(on h3 askctl tasks)"
    on h3 askctl task explain live --json |
        jq -e '.here[0].waits_for != "" and .switch.stats.tuples_switch == 9' >/dev/null || fail "explain --json"
    on h3 askctl task show live | grep -qE '^tuples_switch +9  aggregated on the switch' || fail "show: $(on h3 askctl task show live)"
    on sw askctl task show live --json | jq -e 'length == 1 and .[0].stats.tuples_switch == 9' >/dev/null || fail "show on the switch"
    pass "live figures of a running task"

    [[ $(on h3 askctl task dump live) == $'a\t3\nb\t30\nc\t300' ]] || fail "dump shows $(on h3 askctl task dump live)"
    [[ $(on sw askctl task dump live --top 1) == $'c\t300' ]] || fail "dump --top 1 on the switch"
    # What is in it is its owner's: others hear no more of it than of a task that is not there.
    code=0
    on h1 env ASK_TLS="$ASK_LAB_DIR/$name/tls/h1" askctl task dump live >"$scratch/dump.out" 2>"$scratch/dump.err" || code=$?
    [[ $code == 4 && ! -s $scratch/dump.out ]] || fail "another host's dump ended with $code: $(cat "$scratch/dump.out")"
    on h3 askctl task dump live --json | jq -e '. == [{key:"a",value:3},{key:"b",value:30},{key:"c",value:300}]' \
        >/dev/null || fail "dump --json"
    code=0
    on h3 askctl task dump nosuch 2>"$scratch/dump.err" || code=$?
    ((code == 4)) || fail "a dump of an unknown task ended with $code"
    pass "a running task's memory on the switch, by name"

    spawn "$scratch/watch" h3 askctl tasks --watch 0.2 </dev/null
    wait_for 20 looked_thrice "$scratch/watch.out"
    kill -INT "$spawned"
    exit_of "$spawned"
    ((code == 130)) || fail "askctl tasks --watch ended with $code: $(cat "$scratch/watch.err")"
    code=0
    timeout 10 "$build/bin/askctl" tasks --watch nan 2>"$scratch/nan.err" || code=$?
    ((code == 2)) || fail "askctl tasks --watch nan ended with $code"
    for each in "counters" "channels" "regions" "switch" "history" "task show live" "task explain live" "task dump live"; do
        read -ra words <<<"$each"
        spawn "$scratch/again" h3 askctl "${words[@]}" --json --watch 0.1
        wait_for 20 looked_again "$scratch/again.out"
        kill -INT "$spawned"
        exit_of "$spawned"
        ((code == 130)) || fail "askctl $each --watch ended with $code: $(cat "$scratch/again.err")"
    done
    # A reader that has enough is no reason to go on.
    timeout 10 "$lab" exec --name "$name" h3 -- askctl counters --watch 0.1 | head -n 1 >/dev/null || (($? != 124)) ||
        fail "askctl goes on without a reader"
    pass "a look every so often"

    # Something happens on h1 alone: what the first sender has sent is there, and the second waits.
    on h3 askctl top --looks 2 --watch 0.2 >"$scratch/top"
    (($(grep -c '^live  receiver ' "$scratch/top") == 2)) || fail "two looks of top: $(cat "$scratch/top")"
    # Not a byte of a terminal's in a pipe.
    ! grep -q $'\033' "$scratch/top" || fail "top writes escapes into a pipe"
    on sw askctl top --looks 1 --watch 0.1 --json | jq -e '
        (.tasks | any(.id == "live" and .tuples == 9)) and ([.ports[] | select(.attached)] | length == 3)' >/dev/null ||
        fail "top of the switch: $(on sw askctl top --looks 1 --watch 0.1)"
    on h2 askctl channels --json | jq -e 'any(.[]; .task_id == "live")' >/dev/null || fail "channels: $(on h2 askctl channels)"
    on sw askctl channels | grep -qE '^198\.18\.1\.2:[0-9]+ .* p1$' || fail "channels of the switch: $(on sw askctl channels)"
    # Of the agent's switch, and of one that is named.
    for node in h3 sw; do
        on "$node" askctl regions --json | jq -e '.regions[0].id == "live" and .regions[0].region_bytes > 0
            and .sram_regions_bytes + .sram_values_bytes + .sram_others_bytes == .sram_used_bytes
            and .sram_used_bytes + .sram_free_bytes == .sram_total_bytes' >/dev/null || fail "regions on $node: $(on "$node" askctl regions)"
    done
    on h3 askctl switch | grep -q '^switch .*switch 1, ' || fail "the agent's switch: $(on h3 askctl switch)"
    pass "what moves, channels, regions, the switch"

    # A restart of the agent would end the task; one of the switch would not.
    code=0
    on h3 askctl idle >"$scratch/idle" || code=$?
    ((code == 21)) || fail "idle of a busy agent ended with $code: $(cat "$scratch/idle")"
    grep -qE '^ask-agentd at .*: 1 task \(live\); version .*, packets of version 0x' "$scratch/idle" || fail "idle says $(cat "$scratch/idle")"
    code=0
    on sw askctl idle >"$scratch/idle" || code=$?
    ((code == 21)) || fail "idle of a busy switch ended with $code: $(cat "$scratch/idle")"
    on sw askctl idle --restart >"$scratch/idle" || fail "a switch's task is in the way of a restart: $(cat "$scratch/idle")"
    on h3 askctl idle --wire-version "$(on h3 askctl status --json | jq .upkeep.wire_version)" >/dev/null ||
        fail "the same wire version is in the way"
    pass "what a restart would lose"

    exec 9>&-
    exit_of "$receiver"
    ((code == 0)) || fail "ask-recv ended with $code: $(cat "$scratch/live-recv.err")"
    exit_of "$sender"
    ((code == 0)) || fail "ask-send ended with $code: $(cat "$scratch/live.err")"
    exit_of "$first"
    ((code == 0)) || fail "the first ask-send ended with $code: $(cat "$scratch/first.err")"
}

afterwards() {
    on h3 askctl tasks --all --json |
        jq -e 'any(.[]; .id == "live" and .role == "receiver" and .state == "committed" and .stats.tuples_switch == 9
                        and .ended_seconds_ago >= 0)' >/dev/null || fail "the task is forgotten: $(on h3 askctl tasks --all)"
    on h1 askctl tasks --all | grep -q '^live *sender *sum *committed' || fail "the send is forgotten"
    on h3 askctl task explain live | grep -q 'nothing: it is committed, .* ago' || fail "explain has forgotten it"
    on h3 askctl task show live | grep -qE '^state +committed .* ago' || fail "show has forgotten it: $(on h3 askctl task show live)"
    on h3 askctl history --json | jq -e '.[0].id == "live" and .[0].state == "committed"' >/dev/null || fail "history"
    on h1 askctl history | grep -qE 'ago +live +sender +sum +committed' || fail "history of a sender: $(on h1 askctl history)"
    code=0
    on sw askctl history 2>"$scratch/history.err" || code=$?
    ((code == 2)) || fail "a switch's history ended with $code"
    # Its senders have heard so, each at its next question.
    wait_for 20 on h3 askctl idle
    pass "a task that has ended is still shown"
}

# On a terminal, also once all of it is read.
how_much_is_read() {
    receive share share --senders 2
    hold share h2 share
    printf 'a\t1\n' >"$scratch/share.tsv"
    spawn "$scratch/terminal" h1 script -qec "ask-send --task share --to h3 $scratch/share.tsv" /dev/null
    local -r first=$spawned
    wait_for 20 grep -q 'waiting for the result, .* % read' "$scratch/terminal.out"
    grep -q 'waiting for the result, 100 % read' "$scratch/terminal.out" ||
        fail "not all is read: $(tail -c 300 "$scratch/terminal.out")"
    exec 9>&-
    exit_of "$first"
    ((code == 0)) || fail "ask-send on a terminal ended with $code: $(cat "$scratch/terminal.out")"
    exit_of "$receiver"
    ((code == 0)) || fail "ask-recv ended with $code: $(cat "$scratch/share.err")"
    pass "how much of a file is read"
}

# The receiver's user learns what the sender's user does.
why_a_sender_gave_up() {
    receive bad bad --senders 1
    printf 'a\t1\nno tab here\n' >"$scratch/bad.tsv"
    spawn "$scratch/bad-send" h1 ask-send --task bad --to h3 "$scratch/bad.tsv"
    expect "$scratch/bad-send" 3 'bad.tsv:2:[0-9]+: no TAB' "$spawned"
    expect "$scratch/bad" 11 'sender h1 .*gave up: .*bad.tsv:2:[0-9]+: no TAB' "$receiver"
    on h3 askctl task explain bad | grep -q 'What went wrong: .*no TAB' || fail "explain does not say what went wrong"
    # A file's name is any bytes, and long.
    local -r odd=$scratch/$(printf 'x%.0s' {1..150})$'\xff.tsv'
    cp "$scratch/bad.tsv" "$odd"
    receive odd odd --senders 1
    spawn "$scratch/odd-send" h1 ask-send --task odd --to h3 "$odd"
    expect "$scratch/odd-send" 3 'tsv:2:[0-9]+: no TAB' "$spawned"
    ! grep -q protobuf "$scratch/odd-send.err" || fail "ask-send lets protobuf speak: $(cat "$scratch/odd-send.err")"
    expect "$scratch/odd" 11 'sender h1 .*gave up: .*[\\]xff\.tsv:2:[0-9]+: no TAB' "$receiver"
    pass "a receiver is told why its sender gave up"
}

cancelled() {
    receive cancel cancel --senders 2
    hold cancel h1 cancel
    wait_for 20 joined h3 cancel
    code=0
    on h3 askctl task cancel nosuch 2>"$scratch/cancel.err" || code=$?
    ((code == 4)) || fail "cancelling an unknown task ended with $code"
    on h3 askctl task cancel cancel --json | jq -e '.id == "cancel" and .receives == 1 and .sends == 0' >/dev/null || fail "cancel --json"
    expect "$scratch/cancel" 11 'cancelled by askctl' "$receiver"
    exit_of "$sender"
    ((code == 11)) || fail "the sender of a cancelled task ended with $code"
    exec 9>&-
    wait_for 10 no_tasks h1 h3 sw
    pass "a task is cancelled where it is received"
}

# Whoever reaches the agent's port may ask for a task, not end it.
not_from_elsewhere() {
    receive far far --senders 1
    wait_for 20 opened h3 far
    code=0
    on h1 "$build/tests/ask-e2e-call" 198.18.3.2:4791 ask.v1.Agent/CancelTask '{"task_id": "far"}' >"$scratch/far.call" 2>&1 ||
        code=$?
    grep -q '^PERMISSION_DENIED: .*own host' "$scratch/far.call" ||
        fail "another host's cancel ended with $code: $(cat "$scratch/far.call")"
    on h3 askctl task cancel far >/dev/null
    expect "$scratch/far" 11 'cancelled by askctl' "$receiver"
    pass "only the host itself may cancel its tasks"
}

lab_up --hosts 3
while_it_runs
afterwards
how_much_is_read
why_a_sender_gave_up
cancelled
not_from_elsewhere
