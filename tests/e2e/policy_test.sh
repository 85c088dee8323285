#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# policy_test.sh [SWITCH CONFIG LINE...]: tasks whose cold keys are replaced on the switch, with far too few
# aggregators, give the same answer byte for byte; ask-switchd is killed and restarted in mid-task.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# replacing ID RECV_FLAGS SEND_FLAGS GENERATOR_OPTION...
replacing() {
    local -r id=$1 recv_flags=$2 send_flags=$3
    local -r dir=$scratch/$id
    shift 3
    make_input "$dir" "$@"
    run_task "$dir" "$id" h4 "$recv_flags --policy replace --aggregators 8 --no-back --require-region" "$send_flags"
    jq -e '.tuples_evicted > 0 and .tuples_receiver.no_region == 0' "$dir/recv.json" >/dev/null ||
        fail "$id: nothing was replaced, or not explained: $(jq -c 'del(.senders)' "$dir/recv.json")"
    run_task "$dir" "$id-first" h4 "$recv_flags --policy first-come --aggregators 8 --no-back --require-region" "$send_flags"
    jq -e '.tuples_evicted == 0 and .tuples_receiver.collision > 0' "$dir/recv.json" >/dev/null ||
        fail "$id: first come, and yet replaced: $(jq -c 'del(.senders)' "$dir/recv.json")"
    pass "$id: $*"
}

sent_at_least() {
    on h1 askctl tasks --json |
        jq -e --argjson least "$1" 'any(.[]; .role == "sender" and .stats.tuples_in >= $least and .stats.packets_sent > 0)' \
            >/dev/null
}

# The daemon dies after evicted tuples went out, and while nobody has all of them yet.
restarted() {
    local -r dir=$scratch/restart
    local receiver sender
    make_input "$dir" --seed 71 --senders 1 --tuples 30000 --keys 600 --key-form short --values small
    open_pipe "$dir/fifo"
    spawn "$dir/recv" h4 ask-recv --task restart --senders 1 --stats "$dir/recv.json" --require-region \
        --policy replace --aggregators 8 --no-back </dev/null
    receiver=$spawned
    spawn "$dir/send1" h1 ask-send --task restart --to h4 --merge-window 0 --stats "$dir/send1.json" - <"$dir/fifo"
    sender=$spawned
    sed -n 1,10000p "$dir/in1.tsv" >&9
    wait_for 20 sent_at_least 10000
    lab_do kill sw -KILL
    sed -n 10001,20000p "$dir/in1.tsv" >&9
    wait_for 20 sent_at_least 20000
    lab_do restart sw
    sed -n 20001,30000p "$dir/in1.tsv" >&9
    exec 9>&-
    printf '%s recv\n%s send1\n' "$receiver" "$sender" >"$dir/pids"
    finish_task "$dir"
    jq -e '.tuples_evicted > 0' "$dir/recv.json" >/dev/null || fail "restart: nothing was replaced"
    pass "killed and restarted in mid-task"
}

printf '%s\n' "$@" >"$scratch/switch.toml"
lab_up --hosts 4 --config-switch "$scratch/switch.toml"
each_input replacing
restarted
wait_for 20 no_tasks h1 h2 h3 h4 sw
