#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask-send --max-rate: what the sender's link carries, counted in its middle, is no more than was asked for; the answer is
# the same. A send without it, beside the other, goes on.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly tuples=1000000 rate=20000000

# sent HOST: bits of frames of ASK's that this host's link has carried from it so far, control traffic and ACKs aside. Not by
# way of tools/lab: its start takes longer than what is measured may be off.
sent() {
    "$build/bin/ask-chaos" --pins "$ASK_LAB_DIR/$name/bpf/chaos" --links "$ASK_LAB_DIR/$name/links" status --json |
        jq --argjson link "$(awk -v host="$1" '$2 == host { print "[" $1 - 1 ", \"up\"]" } $3 == host { print "[" $1 - 1 ", \"down\"]" }' \
            "$ASK_LAB_DIR/$name/links")" \
            '.links[$link[0]][$link[1]].carried | [(.data, .long, .var, .fin) | .bytes] | add * 8'
}

now_ms() {
    printf '%s' $((${EPOCHREALTIME/./} / 1000))
}

# A key a tuple, so that nothing is merged. Frames of some 1000 bytes.
mkdir -p "$scratch/slow"
seq -f $'key%07.0f\t1' "$tuples" >"$scratch/slow/in1.tsv"
cp "$scratch/slow/in1.tsv" "$scratch/slow/expected.tsv"

lab_up --topology leaf-spine:1,1,3
receive slow slow --senders 1
spawn "$scratch/slow-send" h1 ask-send --task slow --to h3 --max-rate 20M --stats "$scratch/slow-send.json" "$scratch/slow/in1.tsv"
slow=$spawned
streams() {
    (($(sent h1) > rate / 4))
}
wait_for 20 streams
on h1 askctl task explain slow | grep -q 'no more than 20 Mbit/s of the link' || fail "explain does not say that it is limited"
# No more than was asked for. How much less it is says how busy the machine was.
# From before the first look to behind the second: whoever stands still in between makes it no shorter than what is counted.
began=$(now_ms)
bits=$(sent h1)
sleep 2 # what is measured: whoever stands still in it for a moment counts for less
bits=$(($(sent h1) - bits))
took=$(($(now_ms) - began))
printf 'asked for %d bit/s, the link carried %d\n' "$rate" $((bits * 1000 / took))
((bits > 0 && bits * 1000 / took < rate * 104 / 100)) || fail "the link carried $bits bits in $took ms"
pass "a send at the rate that it was given"

spawn "$scratch/fast-recv" h2 ask-recv --task fast --senders 1
fast=$spawned
on h3 ask-send --task fast --to h2 "$scratch/slow/in1.tsv"
exit_of "$fast"
((code == 0)) || fail "the fast ask-recv ended with $code"
! on h3 askctl task explain fast | grep -q -- '--max-rate' || fail "explain says that the other is limited, too"
cmp "$scratch/fast-recv.out" "$scratch/slow/expected.tsv" || fail "the other answer is another"
pass "others are not held back"

exit_of "$slow"
((code == 0)) || fail "ask-send ended with $code: $(cat "$scratch/slow-send.err")"
exit_of "$receiver"
((code == 0)) || fail "ask-recv ended with $code: $(cat "$scratch/slow.err")"
cmp "$scratch/slow.out" "$scratch/slow/expected.tsv" || fail "the answer is another"
# From first to last: what has left at most, by the time that it took.
jq -e --argjson rate "$rate" --argjson bits "$(sent h1)" '$bits / .seconds < $rate * 1.02' "$scratch/slow-send.json" >/dev/null ||
    fail "$(sent h1) bits in $(jq .seconds "$scratch/slow-send.json") s"
pass "the whole send kept to it"
