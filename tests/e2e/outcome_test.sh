#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# When a task has ended: not before the last sender's FIN, and not before the application has the result. Until then no
# send succeeds, however long ago all that it sent was acknowledged.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# waits HOST: everything of a send there is acknowledged, and it is told of no result yet.
waits() {
    on "$1" askctl tasks --json | jq -e 'any(.[]; .role == "sender" and (.state | startswith("waiting for the result")))' >/dev/null
}

# finished HOST ID NUMBER: so many FINs of the task are in.
finished() {
    on "$1" askctl tasks --json | jq -e --arg id "$2" --argjson number "$3" \
        'any(.[]; .id == $id and .role == "receiver" and (.senders_finished | length) == $number)' >/dev/null
}

# in_state HOST ID STATE: the task at its receiver.
in_state() {
    on "$1" askctl tasks --json | jq -e --arg id "$2" --arg state "$3" \
        'any(.[]; .id == $id and .role == "receiver" and .state == $state)' >/dev/null
}

# running PID WHO
running() {
    kill -0 "$1" 2>/dev/null || fail "$2 has ended before the task: $(cat "$scratch"/*.err)"
}

# One sender has finished, the other has begun. The agents have another task's whole life to get it wrong in.
one_fin_is_missing() {
    dir=$scratch/fin
    make_input "$dir" --seed 101 --senders 2 --tuples 12000 --keys 300
    receive fin-recv outcome --senders 2
    spawn "$scratch/whole" h1 ask-send --task outcome --to h3 "$dir/in1.tsv" </dev/null
    local -r whole=$spawned
    hold half h2 outcome --merge-window 0
    head -n 8000 "$dir/in2.tsv" >&9
    wait_for 20 sent_at_least 1000 h2
    wait_for 20 waits h1
    wait_for 20 finished h3 outcome 1
    make_input "$scratch/other" --seed 102 --senders 2 --tuples 1000 --keys 100
    run_task "$scratch/other" other h3
    running "$receiver" "the receiver"
    running "$whole" "the sender that has finished"
    in_state h3 outcome streaming || fail "with one FIN of two the task is not streaming any more"
    tail -n +8001 "$dir/in2.tsv" >&9
    exec 9>&-
    local pid
    for pid in "$whole" "$sender" "$receiver"; do
        exit_of "$pid"
        ((code == 0)) || fail "a process of a whole task ended with $code: $(cat "$scratch"/*.err)"
    done
    cmp -s "$scratch/fin-recv.out" "$dir/expected.tsv" || fail "wrong answer after a late FIN"
    pass "a task waits for every sender's FIN"
}

# All has arrived; what the switch has is on its way when the application dies. Nobody has the result.
nobody_takes_the_result() {
    receive taken-recv outcome --senders 1 --require-region
    hold taken h2 outcome --merge-window 0
    head -n 8000 "$dir/in2.tsv" >&9
    wait_for 20 sent_at_least 1000 h2
    lab_do kill sw -STOP
    exec 9>&-
    wait_for 20 waits h2
    wait_for 20 in_state h3 outcome fetching
    kill -KILL "$receiver"
    exit_of "$receiver"
    # At once: nobody waits for the switch any more.
    expect "$scratch/taken" 11 'receiver h3: task outcome was cancelled' "$sender"
    lab_do kill sw -CONT
    pass "no send succeeds before the application has the result"
}

lab_up --hosts 3
one_fin_is_missing
nobody_takes_the_result
wait_for 20 no_tasks h1 h2 h3 sw
