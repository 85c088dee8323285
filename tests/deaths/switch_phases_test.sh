#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask-switchd is killed in every phase of a swap, while it is stopped in mid-fetch, and while nobody can tell; the answer
# is exact each time.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# In grace periods a flip takes its time; so does blanking a large region.
printf 'swap_barrier = "rcu"\nsram_kib = 524288\nlease_seconds = %s\n' "$lease" >"$scratch/slow.toml"

switch_pid() {
    "$lab" status --name "$name" --json | jq '.nodes[0].pid'
}

# killed_in PHASE: ask-switchd dies in that phase of a swap of the task under way, and comes back.
killed_in() {
    local caught=3
    # A thread that was not stopped yet may have gone on to the next phase: the successor deals with that, too.
    while ((caught == 3)); do
        caught=0
        "$build/tests/ask-e2e-kill-in-phase" "$ASK_LAB_DIR/$name/bpf/sw/ask/maps/tasks" "$(switch_pid)" "$1" 20 ||
            caught=$?
        ((caught == 0 || caught == 3)) || fail "could not kill ask-switchd in phase $1"
        lab_do restart sw >/dev/null
    done
}

in_phase() {
    local -r phase=$1 log=phase-$1
    dir=$scratch/$log
    make_input "$dir" --seed 41 --senders 1 --tuples 30000 --keys 600
    receive "$log-recv" "$log" --senders 1 --require-region --swap every=20 --aggregators 131072 --policy first-come
    hold "$log" h2 "$log" --merge-window 0
    feed 1 10000
    wait_for 20 sent_at_least 5000 h2
    killed_in "$phase"
    feed 10001 20000
    killed_in "$phase"
    feed 20001 30000
    exec 9>&-
    exact "$log"
    # Both deaths may have been in one swap, where a copy takes seconds to read.
    jq -e ".swaps >= 1" "$scratch/$log-recv.json" >/dev/null || fail "$log: it did not swap"
    nothing_left "killed twice in phase $phase of a swap"
}

# fetching HOST: everything has arrived, and the receiver asks the switch for what it has.
fetching() {
    on "$1" askctl tasks --json | jq -e 'any(.[]; .role == "receiver" and .state == "fetching")' >/dev/null
}

# Stopped, it takes the request for the task's copy and does not answer; then it dies.
during_fetch() {
    stream_task fetch fetch 10000
    lab_do kill sw -STOP
    feed 10001 30000
    exec 9>&-
    wait_for 20 fetching h3
    lab_do kill sw -KILL
    lab_do restart sw
    exact fetch
    nothing_left "killed while a task's copy is being fetched"
}

# Stopped for longer than a lease, with nobody able to renew it meanwhile: the task is not the worse for it.
stopped_for_longer_than_a_lease() {
    DEADLINE=60 stream_task long long 10000
    lab_do kill sw -STOP
    sleep $((lease + 3))
    feed 10001 20000
    wait_for 20 sent_at_least 20000 h2
    lab_do kill sw -CONT
    # Not before it has looked at its leases, and heard the receiver.
    wait_for 20 renewed long
    feed 20001 30000
    exec 9>&-
    exact long
    jq -e '.tuples_switch > 0.5 * .tuples_sent' "$scratch/long-recv.json" >/dev/null ||
        fail "its region was not used: $(cat "$scratch/long-recv.json")"
    nothing_left "stopped for longer than a lease while a task streams"
}

renewed() {
    on sw askctl tasks --json |
        jq -e --arg id "$1" --argjson lease "$lease" 'any(.[]; .id == $id and .lease_left_seconds > $lease - 1)' >/dev/null
}

# Stopped, it takes the request for a new task and does not answer; then it dies.
during_set_up() {
    lab_do kill sw -STOP
    dir=$scratch/setup
    make_input "$dir" --seed 43 --senders 2 --tuples 3000 --keys 300
    start_task "$dir" setup h3 "--require-region"
    wait_for 20 opening h3
    lab_do kill sw -KILL
    lab_do restart sw
    finish_task "$dir"
    nothing_left "killed while a task is being opened and senders look for it"
}

# opening HOST [SECONDS]: a receiver there has been opening its task for so long.
opening() {
    on "$1" askctl tasks --json | jq -e --argjson age "${2:-0}" \
        'any(.[]; .role == "receiver" and (.state | test("opening|geometry")) and .age_seconds >= $age)' >/dev/null
}

# As long as a service manager may take for a successor.
away_at_set_up() {
    lab_do kill sw -KILL
    dir=$scratch/away
    make_input "$dir" --seed 44 --senders 2 --tuples 3000 --keys 300
    start_task "$dir" away h3 "--require-region"
    wait_for 20 opening h3 4
    lab_do restart sw
    finish_task "$dir"
    nothing_left "away for seconds while a task is being opened"

    lab_do kill sw -KILL
    spawn "$scratch/never" h3 ask-recv --task never --senders 1 --deadline 6 </dev/null
    ends_in 20 "$spawned"
    expect "$scratch/never" 6 'switch 198.18.1.1:4792 unreachable: .*start ask-switchd there' "$spawned"
    lab_do restart sw
    nothing_left "away for good when a task is to be opened"
}

deaths_lab --hosts 3 --config-switch "$scratch/slow.toml"
for phase in flipped passed confirmed; do in_phase "$phase"; done
during_fetch
stopped_for_longer_than_a_lease
during_set_up
away_at_set_up
still_works
nothing_left "after all that, the lab counts exactly"
