#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# whole_keys_test.sh [SWITCH CONFIG LINE...]: keys of up to 64 bytes and values of up to 63 bits are added up by the
# switch, with the same answer byte for byte; where packets get lost, too; and without a back level at the receiver.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# on_switch FILE: of those that travelled 99 in 100 at least, and many of them whole.
on_switch() {
    jq -e '.back_bytes > 0 and .tuples_whole * 2 > .tuples_sent and .tuples_receiver.long == 0
        and (.tuples_receiver.total + .tuples_evicted) * 100 <= .tuples_sent' "$1" >/dev/null ||
        fail "not on the switch: $(jq -c 'del(.senders)' "$1")"
}

readonly geometry="--geometry default --aggregators 64 --require-region"

# whole ID "RECV FLAGS" "SEND FLAGS" GENERATOR_OPTION...
whole() {
    local -r id=$1 recv_flags=$2 send_flags=$3
    local -r dir=$scratch/$id
    shift 3
    make_input "$dir" "$@" --key-form whole
    run_task "$dir" "$id" h4 "$recv_flags $geometry" "$send_flags"
    on_switch "$dir/recv.json"
    run_task "$dir" "$id-without" h4 "$recv_flags $geometry --no-back" "$send_flags"
    jq -e '.back_bytes == 0 and .tuples_whole == 0 and .tuples_receiver.long > 0' "$dir/recv.json" >/dev/null ||
        fail "$id: whole keys that nobody takes: $(jq -c 'del(.senders)' "$dir/recv.json")"
    pass "$id: $*"
}

# One that cannot be whole among them: over 64 bytes, with a zero byte, a value outside 63 bits.
every_form() {
    local -r dir=$scratch/forms
    make_input "$dir" --seed 56 --senders 3 --tuples 15000 --keys 3000
    run_task "$dir" forms h4 "--geometry 8+6x2 --aggregators 16" "--merge-window 0"
    jq -e '.tuples_whole > 0 and .tuples_receiver.long > 0 and .tuples_back > 0' "$dir/recv.json" >/dev/null ||
        fail "not every form: $(jq -c 'del(.senders)' "$dir/recv.json")"
    pass "keys and values of all kinds"
}

explained() {
    local -r dir=$scratch/explained
    make_input "$dir" --seed 57 --senders 1 --tuples 2000 --keys 300 --key-form whole --values wide
    run_task "$dir" explained h4 "$geometry" ""
    on h4 askctl task explain explained | grep -q 'up to 64 bytes and values of up to 63 bits' ||
        fail "what goes to the back level is not told: $(on h4 askctl task explain explained)"
    on h1 askctl task explain explained | grep -q 'up to 64 bytes and values of up to 63 bits' ||
        fail "it is not told at the sender: $(on h1 askctl task explain explained)"
    pass "askctl task explain says it"
}

printf '%s\n' "$@" >"$scratch/switch.toml"
lab_up --hosts 4 --chaos --config-switch "$scratch/switch.toml"
whole sums "" "--merge-window 0" --seed 51 --senders 4 --tuples 10000 --keys 2000 --values wide
whole least "--op min" "--merge-window 0" --seed 52 --senders 2 --tuples 10000 --keys 1500 --op min --values wide
whole most "--op max" "" --seed 53 --senders 2 --tuples 10000 --keys 1500 --op max --values wide
whole counts "--op count" "--count --merge-window 0" --seed 54 --senders 3 --tuples 10000 --keys 1500 --count-lines
every_form
explained
# Packets that are lost come again: whole, though the switch has taken some of their records.
lab_do chaos set --loss 5 --reorder 5
whole lossy "" "--merge-window 0" --seed 55 --senders 4 --tuples 10000 --keys 2000 --values wide
every_form
lab_do chaos status --json | jq -e '[.. | .lost? // empty] | add > 100' >/dev/null || fail "nothing was lost"
wait_for 20 no_tasks h1 h2 h3 h4 sw
