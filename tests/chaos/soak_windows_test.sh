#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the judge of streams lets pass, and what it does not: tables made up from logs.
# shellcheck disable=SC2016 # sed's last line, $

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d /tmp/ask-soak-windows.XXXXXX)
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

fail() {
    printf 'FAIL %s line %s: %s\n' "${BASH_SOURCE[1]##*/}" "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

tool() {
    perl "$root/tools/lib/soak_windows.pl" "$@"
}

judge() {
    tool judge "$scratch/out" "$scratch"/s{1,2,3}
}

# tables: three windows of what the logs have, cut where no two senders' cuts are alike, and after lines of both kinds.
tables() {
    local number=0 window begin=1700000000
    rm -rf "$scratch/out"
    mkdir "$scratch/out"
    printf '#number\tbegin\tcovered_until\tstate\tlate_ms\tkeys\ttuples\tmissing\n' >"$scratch/out/windows.tsv"
    for window in "1 100 1 201 1 0" "101 100 202 251 1 399" "101 400 252 400 400 400"; do
        # shellcheck disable=SC2086 # six numbers
        table $window >"$scratch/out/$(date -u -d "@$((begin + number))" +%Y%m%dT%H%M%SZ).tsv"
        number=$((number + 1))
    done
}

# table FROM TO FROM TO FROM TO: its row, and on standard output its lines.
table() {
    local sender
    {
        for sender in 1 2 3; do
            awk -v from="$1" -v to="$2" 'NR >= from && NR <= to' "$scratch/lines$sender"
            shift 2
        done
    } >"$scratch/given"
    awk -F'\t' '{ sum[$1] += $2 } END { for (key in sum) { print key "\t" sum[key] } }' "$scratch/given" >"$scratch/table"
    printf '%s\t%s\t%s\twhole\t20\t%s\t%s\t\n' "$((begin + number))" "$(date -u -d "@$((begin + number))" +%FT%TZ)" \
        "$(date -u -d "@$((begin + number + 1))" +%FT%TZ)" "$(wc -l <"$scratch/table")" "$(wc -l <"$scratch/given")" >>"$scratch/out/windows.tsv"
    cat "$scratch/table"
}

# bad PATTERN COMMAND... : what the command does to good tables is found out, by these words.
bad() {
    local -r pattern=$1
    shift
    tables
    "$@"
    ! judge >"$scratch/said" || fail "not found out: $*"
    grep -qE "$pattern" "$scratch/said" || fail "$* is found out by other words: $(cat "$scratch/said")"
}

for sender in 1 2 3; do
    mkdir "$scratch/s$sender"
    tool write "$scratch/s$sender" "$sender" 1 7 &
done
wait
for sender in 1 2 3; do cp "$scratch/s$sender/log" "$scratch/lines$sender"; done
# One was rotated, eleven times.
for ((file = 1; file <= 11; file++)); do
    sed -n "$((file * 20 - 19)),$((file * 20))p" "$scratch/lines1" >"$scratch/s1/log.$file"
done
sed -n '221,$p' "$scratch/lines1" >"$scratch/s1/log"

readonly one=$scratch/out/20231114T221320Z.tsv two=$scratch/out/20231114T221321Z.tsv rows=$scratch/out/windows.tsv
tables
judge >"$scratch/said" || fail "good tables are not let pass: $(cat "$scratch/said")"
grep -q '^3 windows, 0 of them longer than 1 s, 0 empty, 1200 tuples;' "$scratch/said" || fail "other figures: $(cat "$scratch/said")"

bad 'where s2-207 was to come \(missing\)' sed -i '/^s2-000000207/d' "$two"
# shellcheck disable=SC2016 # $: the last line, to sed
bad 's2-1 where s2-203 was to come \(twice\)' sed -i '$a s2-000000001\t1' "$two"
bad 'is there 2 times' sed -i 's/^\(s1-000000021\t\)1$/\12/' "$one"
bad 'its sums are those of no lines' sed -i 's/^\(shared3\t.*\)$/\11/' "$one"
bad 'its sums are those of no lines' sed -i '/^shared0/d' "$two"
bad 'keys, windows.tsv' sed -i '2s/\t[0-9]*\t\([0-9]*\t\)$/\t7\t\1/' "$rows"
bad 'tuples, the senders wrote 1200' sed -i '2s/\t[0-9]*\t$/\t7\t/' "$rows"
bad 'ends .*, .* begins' sed -i 3d "$rows"
bad 'comes after' sed -i '4h;4p' "$rows"
bad 'is incomplete: of h2' sed -i '3s/whole/incomplete/; 3s/\t$/\tof h2/' "$rows"
bad '4 tables, 3 in windows.tsv' cp "$one" "$scratch/out/20991114T221320Z.tsv"
# shellcheck disable=SC2016 # $: the last line, to sed
bad 'what is' sed -i '$a else\t1' "$two"
# shellcheck disable=SC2016 # $: the last line, to sed
bad '3 tables, 2 in windows.tsv' sed -i '$d' "$rows"
