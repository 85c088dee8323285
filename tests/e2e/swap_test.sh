#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# swap_test.sh [SWITCH CONFIG LINE...]: tasks whose shadow copies are swapped while they stream, one and many at
# once, with ask-switchd killed on the way: byte for byte the reference's answer.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# swapped DIR: that the task did swap, and that swaps brought what the switch held.
swapped() {
    jq -e '.swaps > 0 and .fetched > 0 and .tuples_switch > 0' "$1/recv.json" >/dev/null ||
        fail "$1: no swap: $(jq -c 'del(.senders)' "$1/recv.json")"
}

# Every way of deciding when.
whenever() {
    local -r FEED=until_swapped
    local dir when
    for when in auto tuples=300 packets=20 every=5 every=50,tuples=2000; do
        dir=$scratch/when-${when//[^a-z0-9]/_}
        make_input "$dir" --seed 70 --senders 3 --tuples 30000 --keys 3000 --key-form short --values small
        run_task "$dir" "when-${when//[^a-z0-9]/_}" h4 "--swap $when --aggregators 32" "--merge-window 0"
        swapped "$dir"
        pass "--swap $when: $(jq -c '[.swaps, .fetched]' "$dir/recv.json")"
    done
}

# All classes of keys, MIN and MAX, which a swap merges across epochs.
operators() {
    local -r FEED=until_swapped
    local op
    for op in sum min max count; do
        make_input "$scratch/op-$op" --seed 71 --senders 2 --tuples 10000 --keys 900 --op "$op"
        run_task "$scratch/op-$op" "op-$op" h4 "--op $op --swap tuples=200 --aggregators 16" "--merge-window 0"
        swapped "$scratch/op-$op"
    done
    pass "every operator"
}

at_once() {
    local -r FEED=until_swapped
    local i
    for i in 1 2 3 4 5 6; do
        make_input "$scratch/many$i" --seed "8$i" --senders 2 --tuples 8000 --keys 900
        start_task "$scratch/many$i" "many$i" h4 "--swap tuples=200 --aggregators 16" "--merge-window 0"
    done
    for i in 1 2 3 4 5 6; do
        finish_task "$scratch/many$i"
        swapped "$scratch/many$i"
    done
    pass "six tasks swap at once"
}

# sent_at_least TUPLES: the sender's agent has taken that many.
sent_at_least() {
    on h1 askctl tasks --json |
        jq -e --argjson least "$1" 'any(.[]; .role == "sender" and .stats.tuples_in >= $least)' >/dev/null
}

# A daemon that dies in whatever step of a swap it happens to be in; a swap waits, traffic does not.
killed() {
    local -r dir=$scratch/killed
    local receiver sender i
    make_input "$dir" --seed 90 --senders 1 --tuples 60000 --keys 3000 --key-form short --values small
    open_pipe "$dir/fifo"
    spawn "$dir/recv" h4 ask-recv --task killed --senders 1 --stats "$dir/recv.json" --aggregators 32 \
        --swap every=1 </dev/null
    receiver=$spawned
    spawn "$dir/send1" h1 ask-send --task killed --to h4 --merge-window 0 --stats "$dir/send1.json" - <"$dir/fifo"
    sender=$spawned
    for ((i = 0; i < 6; i++)); do
        sed -n "$((i * 10000 + 1)),$((i * 10000 + 5000))p" "$dir/in1.tsv" >&9
        wait_for 20 sent_at_least $((i * 10000 + 5000))
        lab_do kill sw -KILL
        sed -n "$((i * 10000 + 5001)),$((i * 10000 + 10000))p" "$dir/in1.tsv" >&9
        wait_for 20 sent_at_least $((i * 10000 + 10000))
        lab_do restart sw
    done
    exec 9>&-
    printf '%s recv\n%s send1\n' "$receiver" "$sender" >"$dir/pids"
    finish_task "$dir"
    swapped "$dir"
    pass "killed six times between swaps and in them: $(jq -c '[.swaps, .fetched]' "$dir/recv.json")"
}

# A receiver that is interrupted in the middle leaves nothing behind.
interrupted() {
    local -r dir=$scratch/interrupted
    local receiver sender
    make_input "$dir" --seed 91 --senders 1 --tuples 20000 --keys 3000 --key-form short
    open_pipe "$dir/fifo"
    spawn "$dir/recv" h4 ask-recv --task interrupted --senders 1 --aggregators 32 --swap every=1 </dev/null
    receiver=$spawned
    spawn "$dir/send1" h1 ask-send --task interrupted --to h4 --merge-window 0 - <"$dir/fifo"
    sender=$spawned
    cat "$dir/in1.tsv" >&9
    wait_for 20 sent_at_least 20000
    kill -INT "$receiver"
    exit_of "$receiver"
    ((code == 130)) || fail "an interrupted ask-recv ended with $code: $(cat "$dir/recv.err")"
    exec 9>&-
    exit_of "$sender"
    ((code != 0)) || fail "a send whose receiver was interrupted has succeeded"
    pass "interrupted"
}

printf '%s\n' "$@" >"$scratch/switch.toml"
lab_up --hosts 4 --config-switch "$scratch/switch.toml"
whenever
operators
at_once
killed
interrupted
wait_for 20 no_tasks h1 h2 h3 h4 sw
[[ $(on sw askctl tasks --json) == "[]" ]] || fail "the switch keeps tasks: $(on sw askctl tasks --json)"
