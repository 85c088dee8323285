#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What counts as slower: more than the tolerance, in every round, and in enough of them.

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)

# verdict OLD,... NEW,... : of rounds that took so long, with a tolerance of 3 %.
verdict() {
    jq -nc --argjson old "[$1]" --argjson new "[$2]" '
        def round: {side: .side, result: {jobs: [{way: "ask", data: "zipf", senders: 4, wall_seconds: .seconds,
                                                  senders_cpu_seconds: 1, receiver_cpu_seconds: 1}]}};
        ($old[] | {side: "old", seconds: .} | round), ($new[] | {side: "new", seconds: .} | round)' |
        jq -rs -L "$here" 'include "compare";
            compared("job"; 0.03) | map(select(.metric == "wall_seconds")) | .[0] | "\(.verdict) \(.ratio)"'
}

# expect WANT OLD NEW
expect() {
    local got
    got=$(verdict "$2" "$3")
    [[ $got == "$1" ]] || { echo "FAIL: $2 against $3 gives '$got', expected '$1'" >&2 && exit 1; }
}

expect 'slower 1.5' 2,2,2,2 3,3,3,3
expect 'faster 0.5' 2,2,2,2 1,1,1,1
expect ' 1.02' 1,1,1,1 1.02,1.02,1.02,1.02   # within the tolerance
expect ' 1.5' 2,2,3,2 3,3,3,3                # one old round was as slow
expect ' 1.5' 2,2,2 3,3,3                    # too few rounds
expect 'slower 4' 1,1,2,3,1 4,4,4,4          # an uneven number of them
echo ok
