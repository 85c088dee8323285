#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Members of a group die in the middle of an operation, and the others go on as a smaller one: with ranks in their former
# order, every result exact, and every operation done once. A group grows. One whose root has died says so.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

# What a death that nobody tells of takes: short, since that is all that those cases wait for.
readonly silence=$((3 * ${ASK_TEST_PATIENCE:-1}))

# start GROUP FLAG... : four members, in the middle of their operations; $pids are their processes. With --until N they go
# on until so many are left at most, and then for as many as --operations says.
start() {
    local rank
    group=$1
    shift
    pids=()
    for rank in 0 1 2 3; do
        spawn "$scratch/$group-$rank" "h$((rank + 1))" "$build/tests/ask-e2e-survivor" --group "$group" --rank "$rank" \
            --size 4 --root h1 --seed "${#group}" "$@" </dev/null
        pids+=("$spawned")
    done
    wait_for 20 grep -q '^op [1-9]' "$scratch/$group-1.out"
    # In the middle of one: its bytes are on their way.
    wait_for 20 has_sent h2 $(($(carried h2) + 300000))
}

# good MEMBERS RANK... : these end well, with those members left.
good() {
    local -r members=$1
    local rank
    shift
    for rank; do
        exit_of "${pids[rank]}"
        ((code == 0)) || fail "$group: rank $rank ended with $code: $(cat "$scratch/$group-$rank.err")"
        [[ $(tail -n 1 "$scratch/$group-$rank.out") == "done "*" $members" ]] ||
            fail "$group: rank $rank ended as $(tail -n 1 "$scratch/$group-$rank.out"), not with $members"
    done
}

# refused RANK... : these end because the group cannot go on, by name.
refused() {
    local rank
    for rank; do
        exit_of "${pids[rank]}"
        [[ $code =~ ^(6|10|11)$ ]] || fail "$group: rank $rank ended with $code: $(cat "$scratch/$group-$rank.err")"
        grep -q 'cannot shrink: .*h1' "$scratch/$group-$rank.err" || fail "$group: rank $rank said $(cat "$scratch/$group-$rank.err")"
    done
}

one_dies() {
    start one --until 3 --operations 12 --count 200000
    kill -KILL "${pids[2]}"
    good 0,1,3 0 1 3
    grep -q 'failed: group one: h3 .*has left it: its application ended early' "$scratch/one-1.err" ||
        fail "who died is not named: $(cat "$scratch/one-1.err")"
    pass "one of four dies in mid-operation, and three go on"
}

two_die() {
    start two --until 2 --operations 12 --count 200000
    kill -KILL "${pids[1]}" "${pids[3]}"
    good 0,2 0 2
    pass "two die at once"
}

one_after_the_other() {
    start three --until 1 --operations 12 --count 200000
    kill -KILL "${pids[3]}"
    wait_for 20 grep -q '^op .* 0,1,2$' "$scratch/three-1.out"
    kill -KILL "${pids[1]}"
    wait_for 20 grep -q '^op .* 0,2$' "$scratch/three-0.out"
    kill -KILL "${pids[2]}"
    good 0 0
    pass "one after the other dies, until the root is alone"
}

agent_dies() {
    start agent --until 3 --operations 12 --count 200000 --deadline "$silence"
    lab_do kill h4 -KILL
    good 0,1,2 0 1 2
    exit_of "${pids[3]}"
    ((code != 0)) || fail "the member without an agent ended well"
    lab_do restart h4
    pass "a member's agent dies"
}

# Killed as the shrunk group opens, again and again: members die in any step of it.
dies_while_it_shrinks() {
    local pause
    for pause in 0.005 0.02 0.05 0.1 0.3; do
        start "step${pause#0.}" --until 2 --operations 12 --count 100000 --deadline "$silence"
        kill -KILL "${pids[3]}"
        sleep "$pause"
        kill -KILL "${pids[2]}"
        good 0,1 0 1
    done
    pass "a second member dies while the group settles and shrinks"
}

# Who comes back later is told that the others have gone on.
one_hangs() {
    start hangs --until 3 --operations 12 --count 200000 --deadline "$silence"
    kill -STOP "${pids[2]}"
    wait_for 30 grep -q '^op .* 0,1,3$' "$scratch/hangs-1.out"
    kill -CONT "${pids[2]}"
    good 0,1,3 0 1 3
    exit_of "${pids[2]}"
    ((code == 11)) || fail "the member that hung ended with $code: $(cat "$scratch/hangs-2.err")"
    # Those that went on may be at it still, about to end, or gone.
    grep -qE 'cannot shrink: .*((gone|go) on (already, )?without|not open|members have all joined|does not know|did not come)' "$scratch/hangs-2.err" ||
        fail "the member that hung said $(cat "$scratch/hangs-2.err")"
    pass "a member that hangs is left out, and told so"
}

root_dies() {
    start rootapp --until 1 --count 200000 --deadline "$silence"
    kill -KILL "${pids[0]}"
    refused 1 2 3
    start roothost --until 1 --count 200000 --deadline "$silence"
    lab_do kill h1 -KILL
    refused 1 2 3
    lab_do restart h1
    pass "the root dies: all are told so"
}

lossy() {
    lab_do chaos set --loss 2 --dup 1 --reorder 2 --seed 1
    start lossy --until 3 --operations 12 --count 30000
    kill -KILL "${pids[2]}"
    good 0,1,3 0 1 3
    lab_do chaos clear
    pass "one dies on lossy links"
}

# Two members become four: the first two keep their ranks.
grows() {
    local rank
    group=grows pids=()
    for rank in 0 1; do
        spawn "$scratch/grows-$rank" "h$((rank + 1))" "$build/tests/ask-e2e-survivor" --group grows --rank "$rank" --size 2 \
            --grow 4 --root h1 --operations 10 </dev/null
        pids+=("$spawned")
    done
    for rank in 2 3; do
        spawn "$scratch/grows-$rank" "h$((rank + 1))" "$build/tests/ask-e2e-survivor" --group grows --rank "$rank" --size 4 \
            --root h1 --operations 10 </dev/null
        pids+=("$spawned")
    done
    good 0,1,2,3 0 1 2 3
    pass "a group of two grows to four"
}

lab_up --hosts 4 --rate 60M --chaos
for case in one_dies two_die one_after_the_other agent_dies dies_while_it_shrinks one_hangs root_dies lossy grows; do
    [[ -n ${1-} && $1 != "$case" ]] || "$case"
done
