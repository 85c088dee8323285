#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Columns of GDAL's, a producer of Arrow's C data interface that is not ours, sent by the Python package: whole and in batches, their sums are
# those of the file.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

# sums TASK ROWS BATCHES : as h1's GDAL gives them.
sums() {
    receive "$1" "$1" --senders 1 --sort key
    spawn "$scratch/$1-send" h1 env PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1 ASK_LIBRARY="$build/lib/ask/libask.so.0" \
        /usr/bin/python3 "$root/tests/libask/gdal_columns.py" "$scratch/rows.csv" "$1" h3 "$2" </dev/null
    exit_of "$spawned"
    ((code == 0)) || fail "$1: the sender ended with $code: $(cat "$scratch/$1-send.err")"
    [[ $(<"$scratch/$1-send.out") == "$3 batches" ]] || fail "$1: $(<"$scratch/$1-send.out"), not $3"
    exit_of "$receiver"
    ((code == 0)) || fail "$1: ask-recv ended with $code: $(cat "$scratch/$1.err")"
    cmp "$scratch/$1.out" "$scratch/expected" || fail "$1: other sums than the file's"
    pass "$3 batches of GDAL's"
}

awk 'BEGIN { print "key,value"; for (i = 0; i < 5000; i++) printf "%s%d,%d\n", i % 3 ? "k" : "a longer key of ", i % 97, i * 7919 % 100003 - 50000 }' >"$scratch/rows.csv"
awk -F, 'NR > 1 { sum[$1] += $2 } END { for (key in sum) printf "%s\t%d\n", key, sum[key] }' "$scratch/rows.csv" | LC_ALL=C sort >"$scratch/expected"
lab_up --hosts 3
sums whole 5000 1
sums batches 700 8
