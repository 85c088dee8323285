#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# examples/torch/train.py on four hosts and a switch: the loss curve beside Gloo's, and the same bits whatever the switch
# does.

# shellcheck source=tests/torch/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly steps=60
# Of the loss. Gloo rounds a sum of four float32 gradients three times, ask once or three times in another order, so two may
# differ by 3 * 2^-23 of the largest, 3.6e-7; the bound leaves a factor of 28 for what steps make of it.
readonly bound=1e-5

all_alike() {
    local rank
    for ((rank = 1; rank < workers; rank++)); do
        cmp "$1/result0" "$1/result$rank" || fail "$1: ranks 0 and $rank differ"
    done
}

# column FILE WAY
column() {
    sed -n "s/^$2 //p" "$1"
}

beside_gloo() {
    dir=$scratch/curves
    run_workers "$dir" "$root/examples/torch/train.py" --by ask,gloo,hook --steps "$steps" --result RESULT
    all_alike "$dir"
    tail -n $((steps + 6)) "$dir/w0.out"
    /usr/bin/python3 "$root/tests/torch/curves.py" "$dir/result0" "$steps" "$bound" || fail "the curves differ"
    # Sums of the same numbers: by the hook or by the backend, in buckets of the same values.
    [[ $(column "$dir/result0" hook) == "$(column "$dir/result0" ask)" ]] || fail "hook and backend differ"
    pass "the curve beside Gloo's"
}

# ends_alike NAME: something has been done to the switch; training goes on, and comes to the same bits as undisturbed.
ends_alike() {
    still_work
    finish_workers "$dir"
    all_alike "$dir"
    diff <(column "$dir/result0" ask) <(column "$scratch/curves/result0" ask) >"$dir/differs" ||
        fail "$1: not what it comes to undisturbed: $(head -n 4 "$dir/differs")"
    pass "$1: bit for bit the same"
}

unload() {
    lab_do kill sw -KILL
    on sw ask-switchd --config "$ASK_LAB_DIR/$name/conf/sw.toml" --unload
}

switch_dies() {
    begin daemon
    lab_do kill sw -KILL
    wait_for 60 steps_done "$dir" ask 10
    lab_do restart sw
    ends_alike "ask-switchd killed and restarted"
    begin maps
    unload
    wait_for 60 steps_done "$dir" ask 10
    lab_do restart sw
    wait_for 60 steps_done "$dir" ask 20
    unload
    lab_do restart sw
    ends_alike "the switch's maps gone, for a while and for good"
}

lab_up --hosts "$workers" --rate "$rate"
beside_gloo
switch_dies
