#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask-switchd and the switch's maps die while examples/torch/train.py runs: losses and parameters are those of an undisturbed
# run, bit for bit, at all ranks.

# shellcheck source=tests/torch/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly steps=60

undisturbed() {
    dir=$scratch/undisturbed
    run_workers "$dir" "$root/examples/torch/train.py" --steps "$steps" --result RESULT
    all_alike "$dir"
    (($(column "$dir/result0" ask | wc -l) == steps + 1)) || fail "not $steps losses and the parameters: $(<"$dir/result0")"
    pass "undisturbed"
}

# ends_alike NAME: something has been done to the switch; training goes on, and comes to the same bits as undisturbed.
ends_alike() {
    still_work
    finish_workers "$dir"
    all_alike "$dir"
    diff <(column "$dir/result0" ask) <(column "$scratch/undisturbed/result0" ask) >"$dir/differs" ||
        fail "$1: not what it comes to undisturbed: $(head -n 4 "$dir/differs")"
    pass "$1: bit for bit the same"
}

# adds BEFORE: the switch has completed chunks since it had so many.
adds() {
    (($(switched) > $1))
}

maps_gone() {
    lab_do kill sw -KILL
    unload sw
    [[ ! -e $ASK_LAB_DIR/$name/bpf/sw/ask ]] || fail "maps are still pinned: $(ls "$ASK_LAB_DIR/$name/bpf/sw/ask")"
}

switch_dies() {
    local before
    before=$(switched)
    begin daemon
    adds "$before" || fail "the switch adds nothing"
    lab_do kill sw -KILL
    wait_for 60 steps_done "$dir" ask 10
    lab_do restart sw
    ends_alike "ask-switchd killed and restarted"
    before=$(switched)
    begin maps
    adds "$before" || fail "the switch adds nothing"
    maps_gone
    wait_for 60 steps_done "$dir" ask 10
    lab_do restart sw
    # A new program counts from nought, and adds for those whose maps went.
    wait_for 60 adds 0
    maps_gone
    lab_do restart sw
    ends_alike "the switch's maps gone, for a while and for good"
}

lab_up --hosts "$workers" --rate "$rate"
undisturbed
switch_dies
