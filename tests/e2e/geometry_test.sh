#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Geometry and memory chosen by samples of the senders' keys, as by default, and exact whatever they are.

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

# by_rank FILE SEED KIND KEYS TUPLES: keys whose frequency falls as one over their rank: numbers, hosts or pages.
by_rank() {
    awk -v seed="$2" -v kind="$3" -v keys="$4" -v tuples="$5" 'BEGIN {
        srand(seed)
        for (i = 0; i < tuples; i++) {
            rank = int(exp(rand() * log(keys)))
            if (kind == "numbers") print rank
            if (kind == "hosts") printf "%d.%d.7.%d\n", rank % 223 + 1, int(rank / 223) % 256, rank % 256
            if (kind == "pages") printf "/%s/page-%d.html\n", substr("a/path/that/is/longer/than/others", rank % 33 + 1), rank
        }
    }' >"$1"
}

# kept DIR: at most one tuple in a thousand went upstream before the fetch, and the switch answered nineteen packets in
# twenty.
kept() {
    chosen "$1" "chosen by a sample of" '(.tuples_receiver.total + .tuples_evicted) * 1000 <= .tuples_sent
        and .packets_acked_by_switch >= 0.95 * .packets_sent'
}

# By default flags the switch keeps what fits a packet, merged or not. nearly_all ID FILTER: of the statistics of what is
# left after merging.
nearly_all() {
    local -r id=$1
    local -r dir=$scratch/$id
    mkdir -p "$dir"
    by_rank "$dir/in1.tsv" 1 "$id" 30000 150000
    by_rank "$dir/in2.tsv" 2 "$id" 30000 150000
    expect_counts "$dir"
    run_task "$dir" "$id" h4 "--op count --require-region" "--count --merge-window 0"
    kept "$dir"
    run_task "$dir" "$id-merged" h4 "--op count --require-region" "--count"
    chosen "$dir" "chosen by a sample of" '(.tuples_receiver.total + .tuples_evicted) * 1000 <= .tuples_sent
        and ('"$2"') and .tuples_merged > 0.5 * .tuples_in and (.geometry_reason | test("the rest is merged before"))'
    pass "$id: $(jq -r '.geometry + ", " + .geometry_reason' "$dir/recv.json")"
}

# The same keys sorted: those that come often first, or last.
sorted() {
    local -r id=$1 order=$2
    local -r dir=$scratch/$id
    mkdir -p "$dir"
    by_rank "$dir/in1.tsv" 1 numbers 200000 600000
    sort "$order" -o "$dir/in1.tsv" "$dir/in1.tsv"
    expect_counts "$dir"
    run_task "$dir" "$id" h4 "--op count --require-region" "--count --merge-window 0"
    kept "$dir"
    pass "$id: $(jq -r '.geometry + ", " + .geometry_reason' "$dir/recv.json")"
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

# addresses FILE SEED TUPLES: lines of one IPv4 address each, one of 5000.
addresses() {
    awk -v seed="$2" -v tuples="$3" 'BEGIN {
        srand(seed)
        for (i = 0; i < tuples; i++) {
            host = int(rand() * 5000)
            print "198.51." int(host / 250) + 100 "." host % 250
        }
    }' >"$1"
}

# By default flags the switch adds up nearly all of what it could not even hold in the paper's slots, in as much memory
# as the keys need. Addresses of the other kind and names that are longer still fit no slot: that is said.
internet_addresses() {
    local -r dir=$scratch/ipv4
    mkdir -p "$dir"
    addresses "$dir/in1.tsv" 1 120000
    addresses "$dir/in2.tsv" 2 120000
    expect_counts "$dir"
    run_task "$dir" ipv4 h4 "--op count" "--count --merge-window 0"
    chosen "$dir" "chosen by a sample of" '.tuples_switch >= 0.9 * .tuples_sent and .tuples_merged == 0'
    chosen "$dir" "chosen by a sample of" '.aggregators > 0 and .aggregators < 16384'
    sed 's|.*|2001:db8:1:2:3:4:&|' "$dir/in1.tsv" >"$scratch/ipv6"
    sed 's|.*|https://example.org/page/&|' "$dir/in2.tsv" >"$dir/in2.tsv.new"
    mv "$dir/in2.tsv.new" "$dir/in2.tsv"
    mv "$scratch/ipv6" "$dir/in1.tsv"
    expect_counts "$dir"
    run_task "$dir" long h4 "--op count" "--count --merge-window 0"
    kept "$dir"
    run_task "$dir" long h4 "--op count --no-back" "--count --merge-window 0"
    chosen "$dir" "the default: no key fits any slot" '.tuples_receiver.long == .tuples_sent'
    pass "internet addresses: $(jq -r '.geometry + ", " + .geometry_reason' "$dir/recv.json")"
}

# A few lines are all there is: they are planned for, too, and take little.
few_lines() {
    local -r dir=$scratch/few
    make_input "$dir" --seed 72 --senders 1 --tuples 100 --keys 50
    run_task "$dir" few h4 "" ""
    chosen "$dir" "chosen by a sample of" '.aggregators > 0 and .aggregators <= 4096'
    pass "a few lines"
}

# What is given is kept: nothing then has to be asked of senders, or only how much memory the keys want.
given() {
    local -r dir=$scratch/given
    make_input "$dir" --seed 73 --senders 2 --tuples 3000 --keys 200
    run_task "$dir" given h4 "--geometry default --aggregators 1000" "--merge-window 0"
    chosen "$dir" "" '.geometry == "16+8x2*5" and .aggregators == 1000 and .geometry_reason == ""'
    run_task "$dir" given h4 "--geometry 16+8x2*4" "--merge-window 0"
    chosen "$dir" "" '.geometry == "16+8x2*4" and .aggregators > 0 and .aggregators < 32768 and .tuples_switch > 0'
    run_task "$dir" given h4 "--geometry 4+4x4 --swap tuples=500" "--merge-window 0"
    chosen "$dir" "" '.aggregators > 0 and .aggregators < 32768'
    pass "a geometry that is given"
}

# The line that a task ends with, and its advice.
last_line() {
    local -r dir=$scratch/line
    mkdir -p "$dir"
    addresses "$dir/in1.tsv" 3 20000
    spawn "$dir/recv" h4 ask-recv --task line --senders 1 --op count --geometry default --no-back </dev/null
    receiver=$spawned
    on h1 ask-send --task line --to h4 --count --merge-window 0 "$dir/in1.tsv" 2>"$dir/send.err"
    exit_of "$receiver"
    ((code == 0)) || fail "ask-recv ended with $code: $(cat "$dir/recv.err")"
    spawn "$dir/quiet" h4 ask-recv --quiet --task quiet --senders 1 --op count </dev/null
    receiver=$spawned
    on h1 ask-send --quiet --task quiet --to h4 --count "$dir/in1.tsv" 2>>"$dir/quiet.err"
    exit_of "$receiver"
    [[ $(wc -l <"$dir/recv.err") == 1 ]] || fail "not one line: $(cat "$dir/recv.err")"
    grep -qE '^ask-recv: task line: 20,000 tuples, 0.0 % merged by senders, .* here: .*: --geometry auto' "$dir/recv.err" ||
        fail "the last line is: $(cat "$dir/recv.err")"
    grep -qE '^ask-send: task line: 20,000 tuples, 0.0 % merged here, .* at the receiver$' "$dir/send.err" ||
        fail "the sender's last line is: $(cat "$dir/send.err")"
    [[ ! -s $dir/quiet.err ]] || fail "--quiet said: $(cat "$dir/quiet.err")"
    pass "the last line: $(cat "$dir/recv.err")"
}

# taking ID...: all these tasks have memory on the switch, at once.
taking() {
    on sw askctl tasks --json | jq -e --argjson ids "$(printf '%s\n' "$@" | jq -R . | jq -s .)" \
        '[.[] | select(.aggregators > 0) | .id] as $have | all($ids[]; IN($have[]))' >/dev/null
}

# Twenty tasks at once: half of them small and known, half of them of which nothing is known when they begin. Everybody
# gets some of the switch's memory. The inputs end only when all are there.
twenty_tasks() {
    local -r dir=$scratch/twenty
    local -a ids=() pids=()
    local i host
    make_input "$dir" --seed 74 --senders 1 --tuples 3000 --keys 200
    open_pipe "$dir/fifo"
    for ((i = 0; i < 20; i++)); do
        ids+=("many$i")
        host=h$((i % 3 + 1))
        spawn "$dir/recv$i" h4 ask-recv --quiet --task "many$i" --senders 2 </dev/null
        pids+=("$spawned")
        spawn "$dir/held$i" "$host" ask-send --quiet --task "many$i" --to h4 - <"$dir/fifo"
        pids+=("$spawned")
        ((i % 2)) || continue
        spawn "$dir/whole$i" "$host" ask-send --quiet --task "many$i" --to h4 "$dir/in1.tsv" </dev/null
        pids+=("$spawned")
    done
    wait_for 30 taking "${ids[@]}"
    for ((i = 0; i < 20; i += 2)); do
        spawn "$dir/whole$i" h1 ask-send --quiet --task "many$i" --to h4 "$dir/in1.tsv" </dev/null
        pids+=("$spawned")
    done
    exec 9>&-
    for i in "${pids[@]}"; do
        exit_of "$i"
        ((code == 0)) || fail "one of twenty tasks ended with $code: $(cat "$dir"/*.err)"
    done
    for ((i = 0; i < 20; i++)); do
        cmp -s "$dir/recv$i.out" "$dir/expected.tsv" || fail "task $i of twenty has a wrong answer"
    done
    ! on h4 askctl counters --json | jq -e 'any(.[]; .name == "tasks_without_region" and .value != "0" and .value != 0)' \
        >/dev/null || fail "the agent counts a task without a region"
    pass "twenty tasks at once"
}

# Memory that somebody else has: said by the switch, the agent and the command, also into a pipe, and counted.
no_memory() {
    local -r dir=$scratch/none
    mkdir -p "$dir"
    printf 'a\t1\n' >"$dir/in1.tsv"
    spawn "$dir/recv" h4 ask-recv --task nomemory --senders 1 --aggregators 16777216 --geometry default </dev/null
    receiver=$spawned
    on h1 ask-send --quiet --task nomemory --to h4 "$dir/in1.tsv"
    exit_of "$receiver"
    [[ $code == 0 && $(cat "$dir/recv.out") == $'a\t1' ]] || fail "no memory: $code, $(cat "$dir/recv.err")"
    grep -q '^ask-recv: no memory on the switch, everything is added up here: ' "$dir/recv.err" ||
        fail "no memory: said $(cat "$dir/recv.err")"
    on h4 askctl counters --json | jq -e 'any(.[]; .name == "tasks_without_region" and (.value | tonumber) > 0)' >/dev/null ||
        fail "a task without a region is not counted: $(on h4 askctl counters)"
    lab_do logs sw 2>/dev/null | grep -q 'task nomemory .* gets no region' ||
        grep -q 'task nomemory .* gets no region' "$ASK_LAB_DIR/$name/logs"/* || fail "the switch says nothing of it"
    pass "no memory"
}

# A pipe that is silent at first must not hold up its task.
slow_pipe() {
    local -r dir=$scratch/slow
    mkdir -p "$dir"
    text "$dir/in1.tsv" 3 w 1000 5000
    expect_counts "$dir"
    open_pipe "$dir/fifo"
    spawn "$dir/recv" h4 ask-recv --task slow --senders 1 --op count --stats "$dir/recv.json" </dev/null
    printf '%s recv\n' "$spawned" >"$dir/pids"
    spawn "$dir/send1" h1 ask-send --task slow --to h4 --count --stats "$dir/send1.json" - <"$dir/fifo"
    printf '%s send1\n' "$spawned" >>"$dir/pids"
    wait_for 20 streaming slow
    cat "$dir/in1.tsv" >&9
    exec 9>&-
    finish_task "$dir"
    chosen "$dir" "the default: no sender had a sample" '.tuples_switch > 0 and .aggregators < 32768'
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
    # As long as it waits, it is seen to.
    spawn "$scratch/nobody" h4 ask-recv --task nobody --senders 2 --deadline 6 </dev/null
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
internet_addresses
nearly_all numbers '.slots_filled_ratio > 0.75'
nearly_all hosts '.slots_filled_ratio > 0.85'
nearly_all pages '.geometry_reason | test("go to the back level whole")'
sorted hot-first -n
sorted hot-last -rn
few_lines
given
last_line
slow_pipe
twenty_tasks
no_memory
nobody
wait_for 10 no_tasks h1 h2 h3 h4 sw
