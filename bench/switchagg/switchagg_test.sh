#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/bench switchagg at its smallest. `run` compares every answer; here: that each figure is there and can be true.

set -euo pipefail

readonly OUT=$1
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)

die() {
    echo "switchagg_test: $*" >&2
    exit 1
}

# holds TEXT FILTER: of switchagg.json.
holds() {
    jq -e "$2" "$OUT/switchagg.json" >/dev/null || die "$1: $(jq -c . "$OUT/switchagg.json")"
}

rm -rf "$OUT"
mkdir -p "$(dirname "$OUT")"
"$here/run" --tiny --parts eq3,fig2a,fig2b,fig9,costs --out "$OUT" >"$OUT.stdout"
holds "where it was measured" '.kernel and .commit and .cpu'
holds "points" '[.points[].figure] | unique == ["eq3", "fig2a", "fig9-uniform", "fig9-zipf"]'
holds "no better than can be" 'all(.points[]; .reduction <= .bound and .reduction <= .reduction_before_fetch)'
holds "each pair once" 'all(.points[]; .left + .fetched >= .distinct and .left <= .pairs)'
holds "nothing in a back level where there is none" 'all(.points[]; .back_bytes > 0 or .back == 0)'
holds "all of it in a back level that holds it" \
    '[.points[] | select(.series | startswith("M-"))] | length == 4 and all(.left <= 0.01 * .pairs)'
holds "keys as long as the paper's in it" \
    '[.points[] | select(.series | startswith("M-"))] | all(.shortest_key == 16 and .longest_key == 64 and .back > 0.75 * .pairs)'
holds "Eq. 3 where keys fit" \
    '[.points[] | select(.figure == "eq3" and .series == "back level" and .x <= 0.5) | .reduction - .eq3 | fabs] | length == 3 and max < 0.01'
holds "hops" '[.hops[] | .left <= .in and .out <= .in and .out >= .left] | length == 36 and all'
holds "more hops help but with SwitchAgg's rule and one hash" \
    '[.bars[] | select(.what | startswith("Fig. 2(b)")) | .met] | length == 3 and all'
holds "costs" '[.costs[] | .ns_pair > 0 and .pairs > 0] | length == 6 and all'
holds "bars" '[.bars[].met] | length > 10 and all(. == true or . == false)'
[[ $(head -n 1 "$OUT/points.csv") == 'figure,series,x,keys,'* ]] || die "points.csv: $(head -n 1 "$OUT/points.csv")"
for svg in eq3 fig2a fig9-uniform fig9-zipf; do
    [[ $(<"$OUT/$svg.svg") == '<svg'* ]] || die "$svg.svg is none"
done
