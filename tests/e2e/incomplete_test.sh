#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Asked to, a task goes on without senders that die: everybody else's tuples are in its result exactly once, it says
# whose are not, and who was left out does not hear of success.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# The sender that dies sends this key only, so that what the others sent can be told from it.
readonly lost_key=only-from-the-dead

# sent HOST: its agent has sent packets of a task.
sent() {
    on "$1" askctl tasks --json | jq -e 'any(.[]; .role == "sender" and .stats.packets_sent > 0)' >/dev/null
}

# The receiver's deadline where it is waited for: agents hear of each other each second, and on a busy machine any of them may
# stand still for two more.
readonly patience=5

# begin ID SEED RECV_FLAG... : a receiver on h3 that allows it and waits for two, a whole sender on h1, and on h2 one
# whose input stays open at descriptor 9.
begin() {
    local -r id=$1 seed=$2
    shift 2
    dir=$scratch/$id
    make_input "$dir" --seed "$seed" --senders 1 --tuples 20000 --keys 600
    spawn "$dir/recv" h3 ask-recv --task "$id" --senders 2 --allow-incomplete --stats "$dir/recv.json" "$@" </dev/null
    receiver=$spawned
    spawn "$dir/send1" h1 ask-send --task "$id" --to h3 "$dir/in1.tsv" </dev/null
    whole=$spawned
}

# hold ID: the sender on h2.
hold() {
    open_pipe "$dir/fifo"
    spawn "$dir/send2" h2 ask-send --task "$1" --to h3 --merge-window 0 --deadline 12 - <"$dir/fifo"
    dying=$spawned
    { yes "$lost_key	1" || true; } | head -n 30000 >&9
    wait_for 20 sent h2
}

# went_on REASON: the receiver's result is exact but for h2's key, and marked; h1 succeeded.
went_on() {
    exit_of "$receiver"
    ((code == 20)) || fail "ask-recv ended with $code: $(cat "$dir/recv.err")"
    grep -qE "incomplete: .*$1" "$dir/recv.err" || fail "the result is not marked: $(cat "$dir/recv.err")"
    jq -e '(.complete | not) and (.missing | length) == 1' "$dir/recv.json" >/dev/null ||
        fail "the statistics do not mark it: $(cat "$dir/recv.json")"
    LC_ALL=C grep -av "^$lost_key" "$dir/recv.out" | cmp -s - "$dir/expected.tsv" ||
        fail "others' tuples are not in it exactly once: $(diff "$dir/recv.out" "$dir/expected.tsv" | head -n 5)"
    exit_of "$whole"
    ((code == 0)) || fail "the whole sender ended with $code: $(cat "$dir/send1.err")"
}

application_killed() {
    begin killed 81
    hold killed
    kill -KILL "$dying"
    exec 9>&-
    went_on "an unknown subset of h2.* gave up"
    pass "a killed application"
}

# While swaps go on, and with packets of the dead still on their way.
agent_killed() {
    begin agent 82 --deadline "$patience" --swap every=20
    hold agent
    lab_do kill h2 -KILL
    exec 9>&-
    went_on "an unknown subset of h2.* has not been heard of"
    exit_of "$dying"
    ((code == 6)) || fail "the dying sender ended with $code: $(cat "$dir/send2.err")"
    lab_do restart h2
    pass "a killed agent"
}

# Cut off for longer than the deadline, and back before it gives up itself: it must not hear that all is well.
cut_off() {
    begin cut 83 --deadline "$patience"
    hold cut
    ip -n "ask-$name-h2" link set eth0 down
    went_on "an unknown subset of h2.* has not been heard of"
    ip -n "ask-$name-h2" link set eth0 up
    exec 9>&-
    exit_of "$dying"
    ((code != 0)) || fail "a sender that was left out heard of success"
    wait_for 30 no_tasks h1 h2 h3 sw
    pass "a sender that was cut off does not hear of success"
}

never_joined() {
    begin absent 84 --deadline "$patience"
    went_on 'nothing of 1 sender\(s\)'
    pass "a sender that never joined"
}

refused() {
    spawn "$scratch/refused" h3 ask-recv --task refused --senders 1 --allow-incomplete --policy replace </dev/null
    exit_of "$spawned"
    ((code == 2)) || fail "replace and incomplete together ended with $code: $(cat "$scratch/refused.err")"
    pass "not with replacement"
}

lab_up --hosts 3
refused
application_killed
agent_killed
never_joined
cut_off
