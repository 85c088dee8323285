#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# back_test.sh [SWITCH CONFIG LINE...]: what finds no aggregator stays on the switch all the same, in the back level, with
# the same answer byte for byte; whatever dies meanwhile.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# on_switch FILE PERMILLE: at most so many of the tuples that travelled reached the receiver one by one.
on_switch() {
    jq -e --argjson most "$2" '.back_bytes > 0 and .tuples_back > 0
        and (.tuples_receiver.total + .tuples_evicted) * 1000 <= .tuples_sent * $most' "$1" >/dev/null ||
        fail "not on the switch: $(jq -c 'del(.senders)' "$1")"
}

# Keys of all lengths that fit a slot, far too few aggregators for them.
staying() {
    local -r id=$1 recv_flags=$2 send_flags=$3
    local -r dir=$scratch/$id
    shift 3
    make_input "$dir" "$@" --key-form short --values small
    run_task "$dir" "$id" h4 "$recv_flags --aggregators 8 --require-region" "$send_flags"
    on_switch "$dir/recv.json" 1
    run_task "$dir" "$id-without" h4 "$recv_flags --aggregators 8 --require-region --no-back" "$send_flags"
    jq -e '.back_bytes == 0 and .tuples_back == 0 and .tuples_receiver.total > 0' "$dir/recv.json" >/dev/null ||
        fail "$id: a back level that nobody asked for: $(jq -c 'del(.senders)' "$dir/recv.json")"
    pass "$id: $*"
}

# Long keys too, which go round it, and values at the edge of what an aggregator takes.
everything() {
    local -r dir=$scratch/everything
    make_input "$dir" --seed 41 --senders 3 --tuples 15000 --keys 3000
    run_task "$dir" everything h4 "--geometry 8+6x4 --aggregators 16" "--merge-window 0"
    jq -e '.tuples_back > 0' "$dir/recv.json" >/dev/null || fail "nothing in the back level: $(jq -c 'del(.senders)' "$dir/recv.json")"
    pass "keys and values of all kinds"
}

sent_at_least() {
    on h1 askctl tasks --json |
        jq -e --argjson least "$1" 'any(.[]; .role == "sender" and .stats.tuples_in >= $least and .stats.packets_sent > 0)' \
            >/dev/null
}

# The daemon dies while tuples are there that nobody has fetched, and a successor fetches them.
restarted() {
    local -r dir=$scratch/restart
    make_input "$dir" --seed 42 --senders 1 --tuples 30000 --keys 600 --key-form short --values small
    open_pipe "$dir/fifo"
    spawn "$dir/recv" h4 ask-recv --task restart --senders 1 --stats "$dir/recv.json" --require-region --aggregators 8 </dev/null
    printf '%s recv\n' "$spawned" >"$dir/pids"
    spawn "$dir/send1" h1 ask-send --task restart --to h4 --merge-window 0 --stats "$dir/send1.json" - <"$dir/fifo"
    printf '%s send1\n' "$spawned" >>"$dir/pids"
    sed -n 1,10000p "$dir/in1.tsv" >&9
    wait_for 20 sent_at_least 10000
    lab_do kill sw -KILL
    sed -n 10001,20000p "$dir/in1.tsv" >&9
    wait_for 20 sent_at_least 20000
    lab_do restart sw
    on h4 askctl task explain restart | grep -q 'go to a back level of' || fail "what it has is not told"
    sed -n 20001,30000p "$dir/in1.tsv" >&9
    exec 9>&-
    finish_task "$dir"
    on_switch "$dir/recv.json" 1
    pass "killed and restarted in mid-task"
}

# Of a task whose keys nobody has looked at.
guessed() {
    local -r dir=$scratch/guessed
    make_input "$dir" --seed 43 --senders 1 --tuples 20000 --keys 9000 --key-form short --values small
    run_task "$dir" guessed h4 "--aggregators 8 --geometry default" "--merge-window 0"
    on_switch "$dir/recv.json" 1
    pass "geometry and aggregators given, nothing known of the keys"
}

printf '%s\n' "$@" >"$scratch/switch.toml"
lab_up --hosts 4 --config-switch "$scratch/switch.toml"
each_input staying
everything
restarted
guessed
wait_for 20 no_tasks h1 h2 h3 h4 sw
