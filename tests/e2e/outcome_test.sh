#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# When a task has ended: not before the last sender's FIN, and not before somebody has taken the result. Until then no
# send succeeds, however long ago all that it sent was acknowledged; a result that nobody takes is kept.

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

# again LOG ID FLAGS... : takes a kept result on h3.
again() {
    local -r log=$scratch/$1 id=$2
    shift 2
    spawn "$log" h3 ask-recv --task "$id" --again "$@" </dev/null
}

# takes_again LOG ID: that works, and the answer is exact.
takes_again() {
    again "$1" "$2"
    exit_of "$spawned"
    ((code == 0)) || fail "--again ended with $code: $(cat "$scratch/$1.err")"
    cmp -s "$scratch/$1.out" "$dir/expected.tsv" || fail "--again: wrong answer"
}

# send_whole LOG ID: a send of the whole input from h2; $sender is its process.
send_whole() {
    spawn "$scratch/$1" h2 ask-send --task "$2" --to h3 "$dir/in1.tsv" "$dir/in2.tsv" </dev/null
    sender=$spawned
}

kept() {
    on h3 askctl tasks --json |
        jq -e --arg id "$1" 'any(.[]; .id == $id and (.state | startswith("kept until ")))' >/dev/null
}

# computed HOST: its send has been told that the result waits for somebody to take it.
computed() {
    on "$1" askctl tasks --json | jq -e 'any(.[]; .role == "sender" and (.state | startswith("computed, ")))' >/dev/null
}

# All has arrived; what the switch has is on its way when the application dies.
dies_before_the_result() {
    DEADLINE=60 receive taken-recv outcome --senders 1 --require-region
    hold taken h2 outcome --merge-window 0
    cat "$dir/in1.tsv" >&9
    wait_for 20 sent_at_least 1000 h2
    lab_do kill sw -STOP
    cat "$dir/in2.tsv" >&9
    exec 9>&-
    wait_for 20 waits h2
    wait_for 20 in_state h3 outcome fetching
    kill -KILL "$receiver"
    exit_of "$receiver"
    # At once: nobody waits for the switch any more.
    expect "$scratch/taken" 11 'receiver h3: task outcome was cancelled' "$sender"
    lab_do kill sw -CONT
    pass "no send succeeds before the result is there"
}

# The application dies once the result is there, which is kept: nobody has it, until somebody takes it.
kept_while_its_sender_waits() {
    DEADLINE=60 receive taken-recv outcome --senders 1 --require-region
    wait_for 20 opened h3 outcome
    kill -STOP "$receiver"
    send_whole taken outcome
    wait_for 20 computed h2
    kill -KILL "$receiver"
    exit_of "$receiver"
    wait_for 20 kept outcome
    running "$sender" "the sender of a result that nobody has"
    # The id is free, and what is kept is not in the way.
    make_input "$scratch/other2" --seed 103 --senders 1 --tuples 1000 --keys 100
    run_task "$scratch/other2" outcome h3
    running "$sender" "the sender of a result that nobody has"
    takes_again again-killed outcome
    exit_of "$sender"
    ((code == 0)) || fail "the result was taken in time, and the sender ended with $code: $(cat "$scratch/taken.err")"
    again gone outcome
    expect "$scratch/gone" 4 'no result of task outcome is kept here; kept: none' "$spawned"
    pass "a send succeeds once somebody has the result, and not before"
}

# What a sender is told once nobody has taken the result for the receiver's deadline. That is waited for, and longer than anything
# stands still on a busy machine: a sender that has not come by then is none.
readonly patience=4
readonly told='task [a-z]*: computed, but not taken: kept at h3 until 20[-0-9: ]* UTC; .ask-recv --task [a-z]* --again. there'

# The reader has had enough, or the disk.
output_refused() {
    # shellcheck disable=SC2016  # for that shell
    spawn "$scratch/head-recv" h3 bash -c 'ask-recv --task head --senders 1 --deadline 5 | head -n 1; exit "${PIPESTATUS[0]}"' </dev/null
    receiver=$spawned
    # More than a pipe holds.
    make_input "$scratch/large" --seed 104 --senders 1 --tuples 60000 --keys 40000
    spawn "$scratch/head" h2 ask-send --task head --to h3 "$scratch/large/in1.tsv" </dev/null
    expect "$scratch/head" 14 "$told" "$spawned"
    exit_of "$receiver"
    ((code == 141)) || fail "ask-recv | head ended with $code: $(cat "$scratch/head-recv.err")"
    grep -q 'is not taken, and kept for 3600 s: ask-recv --task head --again' "$scratch/head-recv.err" ||
        fail "ask-recv | head said: $(cat "$scratch/head-recv.err")"
    again head-again head --output "$scratch/head.tsv"
    exit_of "$spawned"
    [[ $code == 0 && ! -s $scratch/head-again.out ]] || fail "--again --output ended with $code"
    cmp -s "$scratch/head.tsv" "$scratch/large/expected.tsv" || fail "--again after head: wrong answer"
    on h3 ask-recv --task full --senders 1 --deadline "$patience" >/dev/full 2>"$scratch/full-recv.err" &
    receiver=$!
    send_whole full full
    expect "$scratch/full" 14 "$told" "$sender"
    exit_of "$receiver"
    ((code == 9)) || fail "a full disk ended ask-recv with $code: $(cat "$scratch/full-recv.err")"
    grep -q 'standard output: .*No space left' "$scratch/full-recv.err" || fail "a full disk gave: $(cat "$scratch/full-recv.err")"
    takes_again full-again full
    pass "standard output that is full or closed: no send succeeds, and the result can be taken"
}

# An application that hangs holds nobody for longer than the deadline, and may come back.
receiver_suspended() {
    spawn "$scratch/susp-recv" h3 ask-recv --task susp --senders 1 --deadline "$patience" </dev/null
    receiver=$spawned
    wait_for 20 opened h3 susp
    kill -STOP "$receiver"
    send_whole susp susp
    expect "$scratch/susp" 14 "$told" "$sender"
    wait_for 10 no_tasks sw
    kill -CONT "$receiver"
    exit_of "$receiver"
    ((code == 0)) || fail "a receiver that came back ended with $code: $(cat "$scratch/susp-recv.err")"
    grep -q 'warning: the result is whole, but its senders may report failure' "$scratch/susp-recv.err" ||
        fail "a receiver that came back said: $(cat "$scratch/susp-recv.err")"
    cmp -s "$scratch/susp-recv.out" "$dir/expected.tsv" || fail "a receiver that came back: wrong answer"
    takes_again susp-again susp
    pass "a suspended receiver"
}

# Two want it; the first is stuck, and is told from one that has gone.
two_take_it() {
    local -r fifo=$scratch/two.fifo
    mkfifo "$fifo"
    exec 9<>"$fifo"
    spawn "$scratch/two-recv" h3 ask-recv --task two --senders 1 --deadline "$patience" --output "$fifo" </dev/null
    receiver=$spawned
    spawn "$scratch/two" h2 ask-send --task two --to h3 "$scratch/large/in1.tsv" </dev/null
    expect "$scratch/two" 14 "$told" "$spawned"
    kill -KILL "$receiver"
    exit_of "$receiver"
    exec 9>&-
    rm "$fifo"
    mkfifo "$fifo"
    exec 9<>"$fifo"
    again two-first two --output "$fifo" --deadline 20
    local -r first=$spawned
    wait_for 10 being_taken two
    again two-second two
    expect "$scratch/two-second" 5 'is being taken by another' "$spawned"
    exec 9>&-
    exit_of "$first"
    ((code == 141)) || fail "a reader that has gone ended --again with $code: $(cat "$scratch/two-first.err")"
    # Its agent hears of that a moment later.
    wait_for 10 put_back two
    again two-third two --output "$scratch/two.tsv"
    exit_of "$spawned"
    ((code == 0)) || fail "--again after one that gave up ended with $code: $(cat "$scratch/two-third.err")"
    cmp -s "$scratch/two.tsv" "$scratch/large/expected.tsv" || fail "--again after one that gave up: wrong answer"
    pass "of two that take a result again the second is told of the first"
}

being_taken() {
    on h3 askctl tasks --json |
        jq -e --arg id "$1" 'any(.[]; .id == $id and (.state | endswith(", being taken")))' >/dev/null
}

put_back() {
    kept "$1" && ! being_taken "$1"
}

output_files() {
    spawn "$scratch/nodir" h3 ask-recv --task nodir --senders 1 --output "$scratch/none/out.tsv" </dev/null
    expect "$scratch/nodir" 2 'output file .*none/out.tsv: No such file' "$spawned"
    again flags outcome --senders 1
    expect "$scratch/flags" 2 'again.* excludes .*senders|senders.* excludes .*again' "$spawned"
    mkdir "$scratch/data"
    ln -s data/out.tsv "$scratch/link.tsv"
    receive link link --senders 1 --output "$scratch/link.tsv"
    send_whole link-send link
    exit_of "$sender"
    ((code == 0)) || fail "a send ended with $code: $(cat "$scratch/link-send.err")"
    # No moment later.
    cmp -s "$scratch/data/out.tsv" "$dir/expected.tsv" || fail "the sender succeeded, and the output is not there"
    exit_of "$receiver"
    [[ $code == 0 && -L $scratch/link.tsv && $(ls "$scratch/data") == out.tsv ]] || fail "--output ended with $code"
    mkdir "$scratch/small"
    mount -t tmpfs -o size=8k ask-e2e-full "$scratch/small"
    spawn "$scratch/small-recv" h3 ask-recv --task small --senders 1 --deadline "$patience" --output "$scratch/small/out.tsv" </dev/null
    receiver=$spawned
    spawn "$scratch/small-send" h2 ask-send --task small --to h3 "$scratch/large/in1.tsv" </dev/null
    expect "$scratch/small-send" 14 "$told" "$spawned"
    expect "$scratch/small-recv" 9 'output file .*small/out.tsv: .*No space left.* is not taken, and kept' "$receiver"
    [[ -z $(ls "$scratch/small") ]] || fail "left on the full disk: $(ls "$scratch/small")"
    umount "$scratch/small"
    again small-again small --output "$scratch/small.tsv"
    exit_of "$spawned"
    cmp -s "$scratch/small.tsv" "$scratch/large/expected.tsv" || fail "--again after a full disk ended with $code"
    pass "--output: whole before any send succeeds, through links, and on a full disk not at all"
}

on_exit() {
    umount "$scratch/small" 2>/dev/null || true
}

lab_up --hosts 3
one_fin_is_missing
dies_before_the_result
kept_while_its_sender_waits
output_refused
receiver_suspended
two_take_it
output_files
wait_for 20 no_tasks h1 h2 h3 sw
