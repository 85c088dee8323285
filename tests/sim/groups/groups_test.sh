#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# groups_test.sh same   one seed is one history, whatever ran before it
# groups_test.sh finds  a member whose value changes is found out, shrunk, and replays as it says
# groups_test.sh waits  so is one that never answers

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly sim=$ASK_BUILD_DIR/bin/ask-sim-groups

die() {
    echo "groups_test: $*" >&2
    exit 1
}

# replays FILE: the first history that it reports fails again, as it is printed.
replays() {
    local -a replay
    grep -q 'replay: tools/sim --groups' "$1" || die "it does not say how to replay: $(cat "$1")"
    read -ra replay < <(sed -n 's/.*tools\/sim --groups //p' "$1" | head -n 1)
    ! "$sim" "${replay[@]}" >"$work/history" || die "what it found does not replay: ${replay[*]}"
    grep -q BROKEN "$work/history" || die "the replay does not say what broke"
}

case $1 in
    same)
        for seed in 7 100 4711; do
            "$sim" --replay "$seed" >"$work/one"
            "$sim" --replay "$seed" >"$work/two"
            cmp "$work/one" "$work/two" || die "seed $seed replays another history"
            (($(wc -l <"$work/one") > 60)) || die "seed $seed: nothing happens"
        done
        # Alone and after others: nothing is carried from one history to the next.
        frames() {
            "$sim" --seed "$1" --runs "$2" | grep -o '[0-9]* frames' | cut -d' ' -f1
        }
        (($(frames 100 1) + $(frames 60 40) == $(frames 60 41))) || die "a history depends on those before it"
        ;;
    finds)
        # From a seed on whose first history is soon made smaller.
        ! "$sim" --seed 200 --runs 300 --failures 1 --set broken=1 >"$work/out" || die "a value that changes goes unnoticed"
        grep -q 'the value of member [0-9]* changes' "$work/out" || die "it is called something else: $(cat "$work/out")"
        replays "$work/out"
        ;;
    waits)
        ! "$sim" --seed 1 --runs 300 --failures 1 --set broken=2,deaths=0,deadline=0 >"$work/out" || die "a member that never answers goes unnoticed"
        grep -qE 'somebody still waits|has no answer' "$work/out" || die "it is not called waiting: $(cat "$work/out")"
        replays "$work/out"
        ;;
    *) die "no test '$1'" ;;
esac
