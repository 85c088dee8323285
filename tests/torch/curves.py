# SPDX-License-Identifier: Apache-2.0
"""curves.py RESULT STEPS BOUND: train.py's losses by ask, hook and gloo are close, and of models that learn."""

import sys

FILE, STEPS, BOUND = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])

losses = {"ask": {}, "gloo": {}, "hook": {}}
with open(FILE) as lines:
    for way, step, value in (line.split() for line in lines):
        if step != "parameters":
            losses[way][int(step)] = float.fromhex(value)
for way, curve in losses.items():
    assert sorted(curve) == list(range(1, STEPS + 1)), f"{way}: not {STEPS} steps"
    assert curve[STEPS] < curve[1] / 3, f"{way}: has not learnt"
    off = {step: abs(loss - losses["gloo"][step]) / losses["gloo"][step] for step, loss in curve.items()}
    # The first is of the same data and parameters: only its mean of four float64 has come another way.
    assert off[1] < 4e-15, f"{way}: {off[1]} of Gloo's loss away before any gradient"
    worst = max(off, key=off.get)
    assert off[worst] <= BOUND, f"{way}: {off[worst]} of Gloo's loss away at step {worst}"
    print(f"{way}: at most {off[worst]:.2e} of Gloo's loss away, at step {worst}; {BOUND:.0e} is allowed")
