#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Key-value tasks through libask.so against the reference: senders and receivers of the library, and of both kinds in one
# task; every operator; through the switch, around it, and with all sent again after the switch has lost what it had.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly tuples=$build/tests/ask-e2e-tuples sorted=1

# ask.h's number of an operator.
number_of() {
    case $1 in sum) echo 1 ;; min) echo 3 ;; max) echo 4 ;; count) echo 10 ;; mean) echo 11 ;; esac
}

# task DIR ID OP RECEIVER [SENDER...]: senders, of these kinds in turn, of DIR/in*.tsv, to h3.
task() {
    local -r dir=$1 id=$2 op=$3 receiver=$4
    local -ra kinds=("${@:5}")
    local -a inputs=("$dir"/in*.tsv) pids=()
    local i kind
    if [[ $receiver == ask-recv ]]; then
        spawn "$dir/recv" h3 ask-recv --task "$id" --senders "${#inputs[@]}" --op "$op" --quiet </dev/null
    else
        spawn "$dir/recv" h3 "$tuples" recv "$id" "${#inputs[@]}" --op "$(number_of "$op")" --flags "$sorted" </dev/null
    fi
    pids+=("$spawned")
    for ((i = 0; i < ${#inputs[@]}; i++)); do
        kind=${kinds[i % ${#kinds[@]}]}
        local -a command=("$tuples" "$kind" "${inputs[i]}" "$id" h3 --offsets $((32 + i % 2 * 32)))
        [[ $kind != ask-send ]] || command=(ask-send --task "$id" --to h3 --quiet "${inputs[i]}")
        [[ ! ${MERGE-} || $kind == ask-send ]] || command+=(--merge "$MERGE")
        spawn "$dir/send$((i + 1))" "$(sender_host $((i + 1)))" "${command[@]}" </dev/null
        pids+=("$spawned")
    done
    for i in "${pids[@]}"; do
        exit_of "$i"
        ((code == 0)) || fail "$id: one ended with $code: $(tail -n 20 "$dir"/*.err)"
    done
    cmp -s "$dir/recv.out" "$dir/expected.tsv" ||
        fail "$id: wrong answer: $(diff "$dir/recv.out" "$dir/expected.tsv" | head -n 8 | cut -c 1-120)"
}

# counted DIR N: the statistics of the N-th sender add up to its tuples.
counted() {
    jq -e --argjson tuples "$(wc -l <"$1/in$2.tsv")" '.tuples_in == $tuples and .tuples_in == .tuples_merged + .tuples_sent
        and .tuples_sent == .tuples_switch + .tuples_receiver and .runs == 1' "$1/send$2.out" >/dev/null ||
        fail "the statistics of $1 do not add up: $(<"$1/send$2.out")"
}

operators() {
    local op
    for op in sum min max; do
        make_input "$scratch/$op" --seed 31 --senders 3 --tuples 20000 --keys 1500 --op "$op"
        task "$scratch/$op" "$op" "$op" lib send push
        counted "$scratch/$op" 1
        counted "$scratch/$op" 2
        pass "$op of the library's senders at its receiver"
    done
    make_input "$scratch/count" --seed 32 --senders 2 --tuples 10000 --keys 900 --values one
    task "$scratch/count" count count lib send push
    pass "count"
    make_input "$scratch/mean" --seed 37 --senders 2 --tuples 10000 --keys 900
    awk -F '\t' -v OFS='\t' 'NR > FNR { print $1, $2, count[$1]; next } { ++count[$1] }' \
        <(cat "$scratch/mean"/in*.tsv) "$scratch/mean/expected.tsv" >"$scratch/mean/expected" &&
        mv "$scratch/mean/expected" "$scratch/mean/expected.tsv"
    task "$scratch/mean" mean mean lib send ask-send
    pass "sums and counts of means, of senders of both kinds"
}

# Either end may be a command.
both_kinds() {
    make_input "$scratch/mixed" --seed 33 --senders 4 --tuples 8000 --keys 1000
    task "$scratch/mixed" mixed sum lib ask-send send push
    pass "senders of both kinds at the library's receiver"
    make_input "$scratch/other" --seed 34 --senders 3 --tuples 8000 --keys 1000
    MERGE=0 task "$scratch/other" other sum ask-recv push ask-send send
    pass "senders of both kinds at ask-recv"
}

# None, and nothing but keys that come once.
edges() {
    mkdir "$scratch/none"
    : >"$scratch/none/in1.tsv"
    : >"$scratch/none/expected.tsv"
    task "$scratch/none" none sum lib send
    make_input "$scratch/apart" --seed 35 --senders 2 --tuples 30000 --keys 30000
    MERGE=0 task "$scratch/apart" apart sum lib send
    pass "no tuples, and keys that hardly come again"
}

# The switch dies while a second sender is to come: what it had is lost, and ask_send() sends all again.
again() {
    make_input "$scratch/again" --seed 36 --senders 2 --tuples 300000 --keys 20000
    spawn "$scratch/again/recv" h3 "$tuples" recv again 2 --flags "$sorted" </dev/null
    local -r receiver=$spawned
    spawn "$scratch/again/send1" h1 "$tuples" send "$scratch/again/in1.tsv" again h3 --merge 0 </dev/null
    local -r one=$spawned
    wait_for 20 joined h3 again
    wait_for 20 sent_at_least 300000
    lab_do kill sw -KILL
    unload sw
    lab_do restart sw
    spawn "$scratch/again/send2" h2 "$tuples" send "$scratch/again/in2.tsv" again h3 --merge 0 </dev/null
    local pid
    for pid in "$receiver" "$one" "$spawned"; do
        exit_of "$pid"
        ((code == 0)) || fail "again: one ended with $code: $(tail -n 20 "$scratch/again"/*.err)"
    done
    cmp "$scratch/again/recv.out" "$scratch/again/expected.tsv" || fail "again: wrong answer"
    (($(jq .runs "$scratch/again/send1.out") > 1)) || fail "again: the first sender has sent once: $(<"$scratch/again/send1.out")"
    pass "a switch loses what it has, and all is sent again"
}

lab_up --hosts 3
operators
both_kinds
edges
again
