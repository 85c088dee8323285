#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# quick_test.sh OUT: every part of tools/bench allreduce runs, and reports what its tables are made of; not for its figures.

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
out=$1

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# part NAME WAYS FUNCTION...: of bench/figures/tables.jq.
part() {
    local -r name=$1 ways=$2
    local function
    shift 2
    "$here/run" --quick --part "$name" --ways "$ways" --out "$out/$name" >"$out/$name.log" 2>&1 || fail "$name: $(<"$out/$name.log")"
    jq -e --arg ways "$ways" '[.rows[].way] == ($ways | split(",")) and all(.rows[]; .goodput_mb > 0 and .sent > 1 and .received > 0 and .barrier_us_p50 > 0)' \
        "$out/$name/allreduce.json" >/dev/null || fail "$name: a row is missing or empty: $(<"$out/$name/allreduce.json")"
    for function; do
        jq -r -L "$here/../figures" "include \"tables\"; $function" "$out/$name/allreduce.json" | grep -q '^| .*[0-9]' ||
            fail "$name: $function makes no table of it"
    done
}

mkdir -p "$out"
part links ask,ask-off,ring,server allreduce allreduce_bars
part jobs ask allreduce_jobs
part loss ask allreduce_loss
part late ask,ask-flush,ring allreduce_late
echo ok
