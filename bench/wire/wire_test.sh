#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/bench wire at its smallest. Not for its figures: `run` compares every answer and adds up packets; here what it
# leaves behind is looked at, and that each figure is there and can be true.

set -euo pipefail

readonly OUT=$1
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)

die() {
    echo "wire_test: $*" >&2
    exit 1
}

# holds TEXT FILTER: of wire.json.
holds() {
    jq -e "$2" "$OUT/wire.json" >/dev/null || die "$1: $(jq -c . "$OUT/wire.json")"
}

rm -rf "$OUT"
mkdir -p "$(dirname "$OUT")"
"$here/run" --tuples 100000 --runs 2 --senders 1,2 --data hits --json --out "$OUT" >"$OUT.stdout"
cmp "$OUT.stdout" "$OUT/wire.json" || die "--json prints something else than wire.json"
holds "where it was measured" '.machine | .kernel and .commit and .cpu'
holds "rows" '[.rows[] | [.way, .senders]] == [["wire", 1], ["reflector", 1], ["wire", 2], ["reflector", 2]]'
holds "every tuple sent once" 'all(.rows[]; .tuples == 100000 * .senders and .packets > .tuples / 128)'
holds "the switch answers all" 'all(.rows[]; .answered_by_switch == 1)'
holds "times to ACKs" 'all(.rows[]; .ack_us_p50 > 0 and .ack_us_p50 <= .ack_us_p99)'
holds "CPU times" 'all(.rows[]; .senders_cpu > 0 and .switch_cpu > 0 and .receiver_cpu > 0)'
holds "bars" '[.bars[].met] | length == 3 and all(. == true or . == false)'
[[ $(wc -l <"$OUT/wire.csv") == 5 ]] || die "wire.csv: $(<"$OUT/wire.csv")"
[[ $(head -n 1 "$OUT/wire.csv") == '"way","data","senders","tuples","packets",'* ]] || die "wire.csv: $(<"$OUT/wire.csv")"
[[ $(<"$OUT/wire.svg") == *'hits, reflector'* ]] || die "wire.svg has no line of the reflector"
