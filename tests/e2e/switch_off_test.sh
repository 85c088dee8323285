#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Without any ask-switchd the hosts do it alone, and the answers are the same.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

lab_up --hosts 4 --switch off
for op in sum count min max; do
    make_input "$scratch/$op" --seed 7 --senders 3 --tuples 6000 --keys 900 --op "$op"
    run_task "$scratch/$op" "off-$op" h4 "--op $op"
    jq -e '.tuples_switch == 0 and .tuples_receiver.no_region > 0 and .packets_acked_by_switch == 0' \
        "$scratch/$op/recv.json" >/dev/null || fail "$op: there is no switch: $(cat "$scratch/$op/recv.json")"
    pass "$op without a switch"
done
code=0
on h4 ask-recv --task region --senders 1 --require-region --deadline 2 >"$scratch/out" 2>"$scratch/err" || code=$?
((code != 0)) || fail "a region was required and there is no switch"
[[ ! -s $scratch/out && -s $scratch/err ]] || fail "no region: $(cat "$scratch/out" "$scratch/err")"
pass "a region is not to be had"
wait_for 10 no_tasks h1 h2 h3 h4
