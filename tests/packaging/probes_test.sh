#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Probes of the daemons: those that docs/operations.md lists are in the programs, with as many arguments, and no others; each is a nop,
# which nobody has to count.

set -euo pipefail

readonly bin=$ASK_BUILD_DIR/bin document=$ASK_SOURCE_DIR/docs/operations.md
scratch=$(mktemp -d /tmp/ask-probes-test.XXXXXX)
readonly scratch
trap 'rm -rf --one-file-system "$scratch"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# notes PROGRAM: "NAME ARGUMENTS SEMAPHORE LOCATION" of each place.
notes() {
    readelf --notes --wide "$bin/$1" | awk '
        /^ +Provider: / { ours = $2 == "ask" }
        /^ +Name: / { name = $2 }
        /^ +Location: / { gsub(",", ""); location = $2; semaphore = $6 }
        /^ +Arguments: / && ours { print name, gsub(/-?[0-9]@/, ""), semaphore, location }'
}

# What GCC makes twice of one place is two notes of a name.
for program in ask-agentd ask-switchd; do
    notes "$program" >"$scratch/$program"
    awk -v program="$program" '{ print program, $1, $2 }' "$scratch/$program"
done | sort -u >"$scratch/built"
awk -F '|' '/^\| `ask-(agentd|switchd)` \| `[a-z_]+` \|/ {
    gsub(/[ `]/, "", $2); gsub(/[ `]/, "", $3); print $2, $3, split($4, arguments, ",") }' "$document" | sort >"$scratch/listed"
[[ -s $scratch/built ]] || fail "no probes at all: were the daemons built with -DASK_USDT=OFF?"
diff "$scratch/listed" "$scratch/built" >&2 || fail "docs/operations.md (<) lists other probes than the daemons have (>)"
printf 'ok %s probes, as docs/operations.md has them\n' "$(wc -l <"$scratch/built")"

for program in ask-agentd ask-switchd; do
    while read -r name _ semaphore location; do
        ((semaphore == 0)) || fail "$program: $name has a semaphore"
        objdump --disassemble --no-show-raw-insn --start-address="$location" --stop-address="$((location + 1))" "$bin/$program" |
            grep -qE ':\s+nop$' || fail "$program: $name at $location is no nop"
    done <"$scratch/$program"
done
echo "ok each is a nop"
