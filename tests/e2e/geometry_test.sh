#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask-recv --geometry auto: chosen by samples of the senders' keys, and exact whatever they are.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# text FILE SEED PREFIX WORDS TUPLES: words whose frequency falls as one over their rank, each line one; every third
# begins with the prefix, the others are short.
text() {
    awk -v seed="$2" -v prefix="$3" -v words="$4" -v tuples="$5" 'BEGIN {
        srand(seed)
        for (i = 0; i < tuples; i++) {
            word = int(exp(rand() * log(words)))
            print (word % 3 == 0 ? prefix : "") word
        }
    }' >"$1"
}

# expect_counts DIR: of all lines of DIR's inputs.
expect_counts() {
    LC_ALL=C sort "$1"/in*.tsv | LC_ALL=C uniq -c | awk '{ print $2 "\t" $1 }' | LC_ALL=C sort >"$1/expected.tsv"
}

# chosen DIR PATTERN FILTER: the geometry's reason begins so, and the statistics fit the jq filter.
chosen() {
    jq -e --arg why "$2" "(.geometry_reason | startswith(\$why)) and ($3)" "$1/recv.json" >/dev/null ||
        fail "$1: $(jq -c 'del(.senders, .packets_by_tuples)' "$1/recv.json")"
}

two_texts() {
    local -r dir=$scratch/two
    mkdir -p "$dir"
    text "$dir/in1.tsv" 1 others- 20000 60000
    text "$dir/in2.tsv" 2 longer- 5000 40000
    expect_counts "$dir"
    run_task "$dir" two h4 "--geometry auto --op count --require-region" "--count --merge-window 0"
    # How full slots get hangs on whether both samples came in time, which a busy machine decides; half full they are
    # with either. Keys to 12 bytes, so three words; with the paper's two the longest would all reach the receiver.
    chosen "$dir" "chosen by a sample of" '.slots_filled_ratio > 0.5 and .tuples_switch > 0.97 * .tuples_in
        and (.geometry | test("^[0-9]+\\+[0-9]+x[34]\\*[0-9]$")) and .aggregators > 0'
    # And the same again, merging, and around the switch.
    run_task "$dir" two h4 "--geometry auto --op count" "--count"
    run_task "$dir" two h4 "--geometry auto --op count --no-switch" "--count --merge-window 0"
    chosen "$dir" "chosen by a sample of" '.slots_filled_ratio > 0.5 and .tuples_switch == 0'
    pass "two texts: $(jq -r '.geometry + ", " + .geometry_reason' "$dir/recv.json")"
}

every_kind_of_key() {
    local -r dir=$scratch/kinds
    make_input "$dir" --seed 71 --senders 3 --tuples 20000 --keys 1500
    run_task "$dir" kinds h4 "--geometry auto" "--merge-window 0"
    chosen "$dir" "chosen by a sample of" '.tuples_switch > 0'
    run_task "$dir" kinds h4 "--geometry auto --aggregators 64" ""
    chosen "$dir" "chosen by a sample of" '.aggregators == 64'
    pass "every kind of key"
}

# A few lines say too little; the answer is as right as ever.
too_little() {
    local -r dir=$scratch/little
    make_input "$dir" --seed 72 --senders 2 --tuples 100 --keys 50
    run_task "$dir" little h4 "--geometry auto" ""
    chosen "$dir" "the default: a sample of " '.geometry == "16+8x2*5"'
    pass "too little to choose by"
}

# A pipe that is silent at first must not hold up its task.
slow_pipe() {
    local -r dir=$scratch/slow
    mkdir -p "$dir"
    text "$dir/in1.tsv" 3 w 1000 5000
    expect_counts "$dir"
    open_pipe "$dir/fifo"
    spawn "$dir/recv" h4 ask-recv --task slow --senders 1 --geometry auto --op count --stats "$dir/recv.json" </dev/null
    printf '%s recv\n' "$spawned" >"$dir/pids"
    spawn "$dir/send1" h1 ask-send --task slow --to h4 --count --stats "$dir/send1.json" - <"$dir/fifo"
    printf '%s send1\n' "$spawned" >>"$dir/pids"
    wait_for 20 streaming slow
    cat "$dir/in1.tsv" >&9
    exec 9>&-
    finish_task "$dir"
    chosen "$dir" "the default: no sender had a sample" '.tuples_switch > 0'
    pass "a slow pipe"
}

# streaming TASK: all its senders have joined.
streaming() {
    on h4 askctl tasks --json | jq -e --arg id "$1" 'any(.[]; .id == $id and .state == "streaming")' >/dev/null
}

# planning TASK: it waits for a sender before it is opened.
planning() {
    on h4 askctl tasks --json | jq -e --arg id "$1" 'any(.[]; .id == $id and (.state | test("geometry")))' >/dev/null
}

# Nobody comes: the error says who is missing, and the id is free again.
nobody() {
    local code=0
    spawn "$scratch/nobody" h4 ask-recv --task nobody --senders 2 --geometry auto --deadline 2 </dev/null
    wait_for 20 planning nobody
    exit_of "$spawned"
    [[ $code == 10 ]] || fail "nobody: ended with $code: $(cat "$scratch/nobody.err")"
    grep -q '0 of 2 senders' "$scratch/nobody.err" || fail "nobody: said $(cat "$scratch/nobody.err")"
    code=0
    on h4 ask-recv --task nobody --senders 1 --geometry 'auto*4' </dev/null >"$scratch/out" 2>"$scratch/err" || code=$?
    [[ $code == 2 ]] || fail "a geometry that is none gave $code: $(cat "$scratch/err")"
    pass "no sender at all"
}

lab_up --hosts 4
two_texts
every_kind_of_key
too_little
slow_pipe
nobody
wait_for 10 no_tasks h1 h2 h3 h4 sw
