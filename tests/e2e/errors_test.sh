#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Whatever goes wrong ends within its deadline, says what and who, commits nothing, and leaves nothing behind.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

unknown_task() {
    spawn "$scratch/unknown" h1 ask-send --task nosuch --to h3 --deadline 1 /dev/null </dev/null
    exit_of "$spawned"
    ((code == 4 || code == 10)) || fail "unknown task: exit code $code: $(cat "$scratch/unknown.err")"
    grep -q nosuch "$scratch/unknown.err" || fail "the unknown task is not named: $(cat "$scratch/unknown.err")"
    spawn "$scratch/host" h1 ask-send --task t --to no-such-host.invalid --deadline 1 /dev/null </dev/null
    exit_of "$spawned"
    ((code != 0)) || fail "a host that does not exist was found"
    grep -q no-such-host.invalid "$scratch/host.err" || fail "the host is not named: $(cat "$scratch/host.err")"
    pass "unknown task, unknown host"
}

id_in_use() {
    receive first same --senders 1
    wait_for 10 opened h3 same
    local -r first=$receiver
    receive second same --senders 1
    expect "$scratch/second" 5 same "$receiver"
    kill -INT "$first"
    expect "$scratch/first" 130 interrupted "$first"
    pass "id in use"
}

bad_lines() {
    printf 'good\t1\nbad\n' >"$scratch/lines.tsv"
    receive badline-recv badline --senders 1
    spawn "$scratch/badline" h1 ask-send --task badline --to h3 "$scratch/lines.tsv" </dev/null
    expect "$scratch/badline" 3 'lines.tsv:2:4: no TAB' "$spawned"
    expect "$scratch/badline-recv" 11 'h1' "$receiver"
    [[ ! -e $scratch/badline-recv.json ]] || fail "a failed receive wrote statistics"
    pass "a malformed line takes the task back"
}

overflow() {
    printf 'fits\t1\nfar\\x01\t9223372036854775807\nfar\\x01\t1\n' >"$scratch/overflow.tsv"
    receive overflow-recv overflow --senders 1
    spawn "$scratch/overflow" h1 ask-send --task overflow --to h3 "$scratch/overflow.tsv" </dev/null
    expect "$scratch/overflow-recv" 12 'far' "$receiver"
    exit_of "$spawned"
    ((code != 0)) || fail "a send succeeded although its task has no result"
    pass "a sum past int64 names its key"
}

sender_killed() {
    receive killed-recv killed --senders 2
    hold killed h2 killed
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 killed
    kill -KILL "$sender"
    exec 9>&-
    expect "$scratch/killed-recv" 11 'h2' "$receiver"
    pass "a killed sender is named"
}

agent_killed() {
    spawn "$scratch/agent-recv" h3 ask-recv --task agent --senders 1 --deadline 3 </dev/null
    receiver=$spawned
    hold agent h2 agent
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 agent
    lab_do kill h2 -KILL
    expect "$scratch/agent" 6 'went away' "$sender"
    exec 9>&-
    exit_of "$receiver"
    ((code == 10 || code == 11)) || fail "the receiver ended with $code: $(cat "$scratch/agent-recv.err")"
    grep -q h2 "$scratch/agent-recv.err" || fail "the silent sender is not named: $(cat "$scratch/agent-recv.err")"
    lab_do restart h2
    pass "an agent that dies is named on both sides"
}

receiver_interrupted() {
    receive cancel-recv cancel --senders 1
    hold cancel h1 cancel
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 cancel
    kill -INT "$receiver"
    expect "$scratch/cancel-recv" 130 interrupted "$receiver"
    expect "$scratch/cancel" 11 'cancel' "$sender"
    exec 9>&-
    pass "Ctrl-C at the receiver ends the senders"
}

sender_interrupted() {
    receive sender-recv sender --senders 1
    hold sender h1 sender
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 sender
    kill -INT "$sender"
    expect "$scratch/sender" 130 interrupted "$sender"
    exec 9>&-
    expect "$scratch/sender-recv" 11 'h1' "$receiver"
    pass "Ctrl-C at a sender ends the receiver"
}

missing_senders() {
    printf 'a\t1\n' >"$scratch/one.tsv"
    spawn "$scratch/missing-recv" h3 ask-recv --task missing --senders 2 --deadline 2 </dev/null
    receiver=$spawned
    spawn "$scratch/missing" h1 ask-send --task missing --to h3 "$scratch/one.tsv" </dev/null
    sender=$spawned
    expect "$scratch/missing-recv" 10 '1 of 2' "$receiver"
    exit_of "$sender"
    ((code != 0)) || fail "a send succeeded although its task is not whole"
    pass "senders that never come are counted"
}

too_many_senders() {
    receive many-recv many --senders 1
    hold many h1 many
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 many
    spawn "$scratch/many2" h2 ask-send --task many --to h3 --deadline 5 "$scratch/one.tsv" </dev/null
    expect "$scratch/many2" 9 many "$spawned"
    exec 9>&-
    exit_of "$sender"
    ((code == 0)) || fail "the task's own sender failed: $(cat "$scratch/many.err")"
    exit_of "$receiver"
    [[ $code == 0 && $(cat "$scratch/many-recv.out") == $'a\t1' ]] || fail "the task suffered: $(cat "$scratch/many-recv.err")"
    pass "one sender too many changes nothing"
}

# Agents hear of each other four times a second at the most: what is shorter is refused, not made longer in silence.
deadline_too_short() {
    spawn "$scratch/short" h3 ask-recv --task short --senders 1 --deadline 0.1 </dev/null
    expect "$scratch/short" 2 'deadline.*0.1' "$spawned"
    pass "a deadline that cannot be kept is refused by name"
}

no_agent() {
    spawn "$scratch/noagent" h1 ask-send --task t --to h3 --agent "$scratch/none.sock" /dev/null </dev/null
    expect "$scratch/noagent" 6 'start ask-agentd' "$spawned"
    pass "no agent"
}

output_full() {
    on h3 ask-recv --task full --senders 1 >/dev/full 2>"$scratch/full.err" &
    receiver=$!
    background+=("$receiver")
    on h1 ask-send --task full --to h3 "$scratch/one.tsv" </dev/null
    exit_of "$receiver"
    ((code != 0)) || fail "a full disk went unnoticed"
    grep -q 'standard output' "$scratch/full.err" || fail "a full disk gave: $(cat "$scratch/full.err")"
    pass "standard output that is full"
}

lab_up --hosts 3
unknown_task
id_in_use
bad_lines
overflow
sender_killed
receiver_interrupted
sender_interrupted
missing_senders
too_many_senders
agent_killed
no_agent
deadline_too_short
output_full
wait_for 40 no_tasks h1 h2 h3 sw
