#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What an operator sees of groups: while they wait, run, are stuck, have failed, and of a switch that does not help.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

# survivor RANK SIZE GROUP FLAG... : in the background on the rank's host; $spawned is its process.
survivor() {
    local -r rank=$1 size=$2 group=$3
    shift 3
    spawn "$scratch/$group-$rank" "h$((rank + 1))" "$build/tests/ask-e2e-survivor" --group "$group" --rank "$rank" \
        --size "$size" --root h1 "$@" </dev/null
}

# start_survivors GROUP FLAG... : four; $pids are their processes.
start_survivors() {
    local -r group=$1
    local rank
    pids=()
    shift
    for rank in 0 1 2 3; do
        survivor "$rank" 4 "$group" "$@"
        pids+=("$spawned")
    done
}

# left_well HOST GROUP: it is remembered there, as one that has left after all operations and has dropped nothing.
left_well() {
    on "$1" askctl groups --all --json | jq -e --arg id "$2" 'any(.groups[]; .id == $id and .state == "left" and .operations >= 5
        and .ended_seconds_ago >= 0 and ([.counters[] | select(.class == "drop" and .value > 0)] == []))' >/dev/null
}

# The first of the pages about it, before all have joined.
waiting() {
    survivor 0 4 late --operations 3
    local -r first=$spawned
    wait_for 20 group_shows h1 late '.state == "waiting" and .waiting_for == "ranks 1, 2, 3" and .coordinates'
    must_explain h1 late 'It waits for ranks 1, 2, 3 to join: start its member'
    pids=("$first")
    for rank in 1 2 3; do
        survivor "$rank" 4 late --operations 3
        pids+=("$spawned")
    done
    for pid in "${pids[@]}"; do
        exit_of "$pid"
        ((code == 0)) || fail "a member of late ended with $code: $(cat "$scratch"/late-*.err)"
    done
    # A member's process may be gone a moment before its agent has heard of it.
    wait_for 10 left_well h2 late
    pass "a group that waits, and one that is over"
}

# A member whose application hangs: the root says which, and that its agent is there.
running_and_stuck() {
    start_survivors stuck --operations 100000 --count 20000 --deadline 60
    wait_for 20 group_shows h1 stuck '.state == "open" and .operations > 3 and .through_switch and .direct and .chunks_switch > 0
        and (.members | length) == 4 and all(.members[]; .known) and .window > 0 and .slots > 0 and (.streams | length) > 0'
    on h1 askctl groups | grep -qE '^stuck +0 of 4 +h1 .* adds, sends to all ' || fail "the list: $(on h1 askctl groups)"
    on h3 askctl groups stuck | grep -q 'rank 2 of 4' || fail "one group: $(on h3 askctl groups stuck)"
    # shellcheck disable=SC2016 # jq's
    on sw askctl groups --json | jq -e 'any(.groups[]; .id == "stuck" and .members == 4 and .flows == 4 and .direct and .fan
        and .window > 0 and ([.highest[]] | add) > 0) and .pool.slots == 4096 and .pool.bytes > 0' >/dev/null ||
        fail "the switch shows $(on sw askctl groups --json)"
    pass "a group that runs, at its members, its root and its switch"

    kill -STOP "${pids[3]}"
    must_explain h1 stuck 'rank 3, h4 \(198.18.4.2\), has not begun operation [0-9]+, for which the others wait for .*its agent is there: its application computes, or hangs; the group fails in'
    must_explain h2 stuck 'rank 3, h4 .*has not sent its part of operation .* knows more of it'
    kill -CONT "${pids[3]}"
    pass "a member whose application hangs"

    lab_do kill h4 -STOP
    must_explain h1 stuck 'rank 3, h4 \(198.18.4.2\), has not sent for .*, and its agent is silent for'
    lab_do kill h4 -CONT
    pass "a member whose agent hangs"
}

# page HOST: its metrics.
page() {
    # shellcheck disable=SC2016 # the node's
    on "$1" bash -c 'exec 3<>/dev/tcp/127.0.0.1/9792; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3'
}

# metric HOST NAME: its value.
metric() {
    page "$1" | sed -n "s/^$2 //p"
}

metrics() {
    [[ $(metric h1 ask_agent_groups) == 1 && $(metric h1 ask_agent_groups_on_switch) == 1 ]] ||
        fail "the root's metrics: $(page h1 | grep group)"
    [[ $(metric h1 'ask_agent_group_operations{group="stuck"}') -gt 3 ]] || fail "no operations of the group in the metrics"
    [[ $(metric h1 ask_agent_group_arena_bytes) == $((256 << 20)) ]] || fail "the arenas: $(metric h1 ask_agent_group_arena_bytes)"
    [[ $(metric h1 ask_agent_group_member_results_total) -gt 3 ]] || fail "no results in the metrics"
    [[ $(metric sw ask_switch_groups) == 1 && $(metric sw ask_switch_groups_direct) == 1 && $(metric sw ask_switch_value_slots) == 4096 ]] ||
        fail "the switch's metrics: $(page sw | grep -E 'group|value')"
    pass "metrics of agents and switch"
}

# As a reboot does: daemon, programs, links and maps are gone.
forget_maps() {
    lab_do kill sw -KILL
    unload sw
    lab_do restart sw
}

# The root says when, and that it is open there again.
switch_forgets() {
    forget_maps
    must_explain h1 stuck 'lost the group .*; opened there again .* ago'
    pass "a switch that has lost its maps"
}

failed() {
    kill -KILL "${pids[3]}"
    wait_for 20 group_shows h2 stuck '.generation == 1 and .size == 3'
    on h2 askctl groups --all --json | jq -e 'any(.groups[]; .id == "stuck" and .state == "failed" and .size == 4
        and (.error | test("h4 .* has left it: its application ended early")))' >/dev/null ||
        fail "h2 does not show the failed one: $(on h2 askctl groups --all)"
    on h1 askctl groups --all --json | jq -e 'any(.groups[]; .state == "failed" and .members[3].dead)' >/dev/null ||
        fail "the root does not show who is dead: $(on h1 askctl groups --all --json)"
    for pid in "${pids[@]:0:3}"; do kill -KILL "$pid"; done
    wait_for 20 group_shows h2 stuck '.state == "failed"'
    must_explain h2 stuck 'It has failed: '
    on h2 askctl groups --all | grep -qE '^stuck .* failed .* ago ' || fail "the list: $(on h2 askctl groups --all)"
    pass "a group that has failed, and the one that went on"
}

no_switch() {
    dir=$scratch/alone
    make_vectors "$dir" --seed 3 --members 4 --count 300000
    start_group "$dir" alone --no-switch
    wait_for 20 explains h1 alone 'The switch does not help: the collector adds: --no-switch'
    finish_group "$dir"
    pass "a group that goes past the switch"
}

# Four groups on 64 slots. All four have to be there as they are looked at: their 32 MB take the links four seconds at least.
pool_full() {
    local group
    for group in a b c d; do
        make_vectors "$scratch/$group" --seed 5 --members 4 --count 1000000
        start_group "$scratch/$group" "$group"
    done
    wait_for 20 explains h1 a 'Pool full: 4 group\(s\) share 64 slots, and [0-9,]+ partial sums met'
    for group in a b c d; do finish_group "$scratch/$group"; done
    pass "a pool that is too small"
}

# folded: how many values the switch has added to others since its maps are there.
folded() {
    on sw askctl counters --json | jq '[.[] | select(.name == "value_folded") | .value | tonumber] | add'
}

folded_more_than() {
    (($(folded) > $1))
}

# A pool no larger than a group's window, and a switch that has lost its maps: what is opened there again fits as before.
small_pool_lost() {
    start_survivors again --until 3 --operations 12 --count 20000 --deadline 60
    wait_for 20 group_shows h1 again '.state == "open" and .through_switch and .chunks_switch > 0'
    forget_maps
    must_explain h1 again 'lost the group .*; opened there again .* ago'
    # Its counters began anew with its maps.
    wait_for 20 folded_more_than 500
    on sw askctl groups --json | jq -e '.pool.slots == 64 and any(.groups[]; .id == "again" and .window > 0 and .window <= 64)' >/dev/null ||
        fail "opened again: $(on sw askctl groups --json)"
    kill -KILL "${pids[3]}"
    for rank in 0 1 2; do
        exit_of "${pids[rank]}"
        ((code == 0)) || fail "rank $rank of again ended with $code: $(cat "$scratch/again-$rank.err")"
    done
    pass "a small pool that was lost, and is used again"
}

printf 'metrics = "127.0.0.1:9792"\nmetrics_tasks = true\n' >"$scratch/metrics.toml"
lab_up --hosts 4 --rate 60M --config-switch "$scratch/metrics.toml" --config-agent "$scratch/metrics.toml"
waiting
no_switch
running_and_stuck
metrics
switch_forgets
failed
code=0
on h1 askctl groups nosuch 2>"$scratch/nosuch" || code=$?
((code == 4)) || fail "an unknown group ended with $code"
grep -q "no group nosuch here" "$scratch/nosuch" || fail "an unknown group: $(cat "$scratch/nosuch")"
lab_do down

printf 'value_slots = 64\n' >"$scratch/tiny.toml"
lab_up --hosts 4 --rate 60M --config-switch "$scratch/tiny.toml"
pool_full
small_pool_lost
