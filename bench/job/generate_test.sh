#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Keys that look like fields of a log: as many different ones as asked for, the same in every run, as long as said.
# generate_test.sh ASK-BENCH-JOB

set -euo pipefail

readonly job=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/ask-bench-generate.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# keys FORM SEED FILE: all of 10000 come in so many draws.
keys() {
    "$job" generate --form "$1" --keys 10000 --tuples 300000 --seed "$2" >"$work/$3"
    LC_ALL=C sort --unique "$work/$3" >"$work/$3.keys"
    (($(wc -l <"$work/$3.keys") == 10000)) || fail "$1: $(wc -l <"$work/$3.keys") keys, not 10000"
}

# expect_all FORM PATTERN
expect_all() {
    ! grep -qvE "$2" "$work/$1.keys" || fail "$1: '$(grep -m1 -vE "$2" "$work/$1.keys")' is none"
}

for form in address path; do
    keys $form 1 $form
    keys $form 1 again
    cmp -s "$work/$form" "$work/again" || fail "$form: the same seed gives something else"
    keys $form 2 other
    ! cmp -s "$work/$form" "$work/other" || fail "$form: another seed gives the same"
    cmp -s "$work/$form.keys" "$work/other.keys" || fail "$form: another seed has other keys"
done
expect_all address '^[0-9]{1,3}(\.[0-9]{1,3}){3}$'
expect_all path '^/[a-z0-9/?=&+._-]{8,}$'
long=$(grep -cE '^.{65,}$' "$work/path.keys")
((long >= 200 && long <= 500)) || fail "path: $long of 10000 are longer than 64 bytes"
"$job" generate --form path --keys 16777217 --tuples 1 2>"$work/error" && fail "more paths than there are"
grep -q 'ask for fewer with --keys' "$work/error" || fail "said: $(<"$work/error")"
