#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# examples/torch/train.py on four hosts and a switch: the loss curve beside Gloo's, by the backend and by the hook.

# shellcheck source=tests/torch/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly steps=60
# Of the loss. Gloo rounds a sum of four float32 gradients three times, ask once or three times in another order, so two may
# differ by 3 * 2^-23 of the largest, 3.6e-7; the bound leaves a factor of 28 for what steps make of it.
readonly bound=1e-5

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

lab_up --hosts "$workers" --rate "$rate"
beside_gloo
