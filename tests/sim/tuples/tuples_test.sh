#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tuples_test.sh same   one seed is one history, whatever ran before it
# tuples_test.sh seeds  the histories that found bugs (tests/sim/tuples/seeds.txt) keep every promise
# tuples_test.sh finds  a receiver that merges a copy twice is found out, shrunk, and replays as it says
# tuples_test.sh waits  so is one that waits for ever, and what it is shrunk to waits, too, where less would fail otherwise

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
    echo "tuples_test: $*" >&2
    exit 1
}

case $1 in
    same)
        sim=$ASK_BUILD_DIR/bin/ask-sim-8
        for seed in 7 100 4711; do
            "$sim" --replay "$seed" >"$work/one"
            "$sim" --replay "$seed" >"$work/two"
            cmp "$work/one" "$work/two" || die "seed $seed replays another history"
            (($(wc -l <"$work/one") > 100)) || die "seed $seed: nothing happens"
        done
        # Alone and after others: nothing is carried from one history to the next.
        "$sim" --seed 100 --runs 1 | grep -o '[0-9]* tasks committed.*frames' >"$work/alone"
        "$sim" --seed 60 --runs 40 | grep -o '[0-9]* tasks committed.*frames' >"$work/before"
        "$sim" --seed 60 --runs 41 | grep -o '[0-9]* tasks committed.*frames' >"$work/all"
        for column in 1 8; do
            sum=$(cut -d' ' -f"$column" "$work/alone" "$work/before" | tr -d , | paste -sd+ | bc)
            [[ $sum == "$(cut -d' ' -f"$column" "$work/all" | tr -d ,)" ]] || die "a history depends on those before it"
        done
        ;;
    seeds)
        ran=0
        while read -r window size seed set; do
            [[ $window =~ ^[0-9]+$ ]] || continue
            sim=$ASK_BUILD_DIR/bin/ask-sim
            ((window == 256)) || sim+=-$window
            # With IPv4, as they were found.
            "$sim" --no-shrink --runs 1 --seed "$seed" --size "$size" --set "${set:+$set,}six=0" || die "seed $seed fails again"
            ran=$((ran + 1))
        done <"$here/seeds.txt"
        ((ran > 0)) || die "no seeds in $here/seeds.txt"
        ;;
    finds)
        # The checks of the checker: what is reported must replay, and must be smaller.
        sim=$ASK_BUILD_DIR/bin/ask-sim-8
        "$sim" --seed 1 --runs 3000 --failures 1 --set broken=1 >"$work/out" && die "a receiver that merges a copy twice goes unnoticed"
        grep -q 'replay: tools/sim' "$work/out" || die "it does not say how to replay"
        read -ra replay < <(sed -n 's/.*tools\/sim --window 8 //p' "$work/out" | head -n 1)
        "$sim" "${replay[@]}" >"$work/history" && die "what it found does not replay: ${replay[*]}"
        grep -q BROKEN "$work/history" || die "the replay does not say what broke"
        ;;
    waits)
        sim=$ASK_BUILD_DIR/bin/ask-sim-8
        "$sim" --seed 3 --runs 40 --failures 1 --set broken=2,deadline=1000 >"$work/out" && die "a receiver that waits for ever goes unnoticed"
        grep -q '^seed 3: somebody still waits' "$work/out" || die "it is not called waiting: $(cat "$work/out")"
        # With fewer tuples than 11 this one gives a wrong answer instead.
        "$sim" --seed 3 --runs 1 --set broken=3,tuples=20,deadline=1000 >"$work/out" && die "a receiver that waits for ever goes unnoticed"
        grep -q '^seed 3: somebody still waits' "$work/out" || die "it is not called waiting: $(cat "$work/out")"
        grep -q '^  shrunk: somebody still waits' "$work/out" || die "shrunk to another failure: $(cat "$work/out")"
        grep -qE 'replay: .*tuples=11(,|$)' "$work/out" || die "not shrunk as far as it goes: $(cat "$work/out")"
        ;;
    *) die "no test '$1'" ;;
esac
