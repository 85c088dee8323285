#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask-recv --op mean: means, sums and counts are those that awk finds in the same lines, whether the switch adds or not, and out of a
# result that was kept. Senders are not told what is wanted of them. relays_test.sh has means on relays.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Keys of all lengths, and those that end as sums and counts are marked; values of both signs, and some that no aggregator takes.
make_lines() {
    awk -v seed="$1" 'BEGIN {
        srand(seed)
        for (i = 0; i < 4000; i++) {
            n = int(rand() * 97)
            key = n % 7 == 0 ? "k" n "#" : n % 11 == 0 ? "+" : n % 13 == 0 ? "a key that fits no slot, number " n : n % 5 == 0 ? "k#" n "+" : "w" n
            printf "%s\t%.0f\n", key, n % 17 ? int((rand() - 0.5) * 2000) : int((rand() - 0.5) * 8000000000)
        }
    }'
}

# means FORMAT FILE... : what is expected. Sums are far below 2^53, so awk has them exactly.
means() {
    awk -F '\t' '{ sum[$1] += $2; count[$1]++ }
        END { for (key in sum) printf "%s\t%.0f\t%d\n", key, sum[key], count[key] }' "$@" | LC_ALL=C sort -t $'\t' -k 1,1
}

# whole TASK RECEIVER "RECV FLAGS" "SEND FLAGS"
whole() {
    local -r id=$1 receiver_host=$2
    local -a recv send
    read -ra recv <<<"$3"
    read -ra send <<<"$4"
    spawn "$scratch/$id" "$receiver_host" ask-recv --task "$id" --senders 2 --op mean --decimals 3 --sort key --stats "$scratch/$id.json" "${recv[@]}" </dev/null
    receiver=$spawned
    spawn "$scratch/$id-1" h1 ask-send --task "$id" --to "$receiver_host" "${send[@]}" "$scratch/one.tsv" </dev/null
    local -r first=$spawned
    spawn "$scratch/$id-2" h2 ask-send --task "$id" --to "$receiver_host" "${send[@]}" "$scratch/two.tsv" </dev/null
    local pid
    for pid in "$spawned" "$first" "$receiver"; do
        exit_of "$pid"
        ((code == 0)) || fail "$id: one ended with $code: $(cat "$scratch/$id"*.err)"
    done
    cut -f 1,3,4 "$scratch/$id.out" | diff - "$scratch/expected" >&2 || fail "$id: other sums or counts (above)"
    awk -F '\t' '{ exact = $3 / $4; if ($2 - exact > 0.000501 || exact - $2 > 0.000501) { print; bad = 1 } } END { exit bad }' "$scratch/$id.out" >&2 ||
        fail "$id: that is no mean (above)"
}

make_lines 1 >"$scratch/one.tsv"
make_lines 2 >"$scratch/two.tsv"
means "$scratch/one.tsv" "$scratch/two.tsv" >"$scratch/expected"
lab_up --hosts 3
whole plain h3 "" ""
whole unmerged h3 "" "--merge-window 0"
jq -e '.tuples_in == 16000 and .tuples_switch > 0' "$scratch/unmerged.json" >/dev/null || fail "not two tuples a line: $(jq -c 'del(.senders)' "$scratch/unmerged.json")"
whole alone h3 "--no-switch" ""
whole own h3 "--switches own" ""
pass "means, with and without the switch"

# The largest first, by the exact mean; and what was kept is known as one of means.
spawn "$scratch/full" h3 bash -c 'exec ask-recv --task kept --senders 1 --op mean --deadline 20 >/dev/full' </dev/null
receiver=$spawned
spawn "$scratch/kept-send" h1 ask-send --task kept --to h3 "$scratch/one.tsv" </dev/null
expect "$scratch/full" 9 'standard output: .*No space left.* is not taken, and kept' "$receiver"
on h3 ask-recv --task kept --again --top 3 --format csv --decimals 0 >"$scratch/top.csv" || fail "--again: $?"
exit_of "$spawned"
((code == 0)) || fail "the result was taken, and its sender ended with $code: $(cat "$scratch/kept-send.err")"
means "$scratch/one.tsv" | awk -F '\t' '{ printf "%.9f\t%s\n", $2 / $3, $1 }' | LC_ALL=C sort -t $'\t' -k 1,1gr -k 2,2 | head -n 3 | cut -f 2 >"$scratch/best"
tail -n +2 "$scratch/top.csv" | sed -E 's/^"?(.*[^"])"?(,[^,]*){3}\r$/\1/' | cmp - "$scratch/best" ||
    fail "the largest means are others: $(cat "$scratch/top.csv" "$scratch/best")"
head -n 1 "$scratch/top.csv" | grep -q '^key,mean,sum,count' || fail "CSV begins with $(head -n 1 "$scratch/top.csv")"
pass "a result that was kept, the largest means first"

code=0
on h3 ask-recv --task none --senders 1 --op mean --allow-incomplete 2>"$scratch/usage" || code=$?
((code == 2)) || fail "incomplete means: $code, $(cat "$scratch/usage")"
grep -q 'so --op mean is whole or an error' "$scratch/usage" || fail "incomplete means: $(cat "$scratch/usage")"
wait_for 20 no_tasks h1 h2 h3 sw
