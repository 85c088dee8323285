#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Without any ask-switchd the hosts do it alone, and the answers are the same.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# no_switch ID RECV_FLAGS SEND_FLAGS GENERATOR_OPTION...
no_switch() {
    local -r id=$1 recv_flags=$2 send_flags=$3
    local -r dir=$scratch/$id
    shift 3
    make_input "$dir" "$@"
    run_task "$dir" "$id" h4 "$recv_flags" "$send_flags"
    jq -e '.tuples_switch == 0 and .tuples_receiver.no_region > 0 and .packets_acked_by_switch == 0' \
        "$dir/recv.json" >/dev/null || fail "$id: there is no switch: $(cat "$dir/recv.json")"
    pass "$id without a switch"
}

lab_up --hosts 4 --switch off
each_input no_switch
code=0
on h4 ask-recv --task region --senders 1 --require-region --deadline 2 >"$scratch/out" 2>"$scratch/err" || code=$?
((code != 0)) || fail "a region was required and there is no switch"
[[ ! -s $scratch/out && -s $scratch/err ]] || fail "no region: $(cat "$scratch/out" "$scratch/err")"
pass "a region is not to be had"
wait_for 10 no_tasks h1 h2 h3 h4
