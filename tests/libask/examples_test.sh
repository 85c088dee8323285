#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# examples_test.sh EXAMPLE... : those of examples/libask, built outside the tree against what is installed, in a lab whose
# switch adds and in one whose switch only routes. Every member's, or the receiver's, output is compared with what awk, or numpy on its own,
# makes of all inputs together.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly members=4 prefix=$scratch/prefix data=$scratch/data

install_and_build() {
    local part
    for part in lib/ask python; do
        cmake -DCMAKE_INSTALL_PREFIX="$prefix" -P "$build/$part/cmake_install.cmake" >"$scratch/log" 2>&1 ||
            fail "$part does not install: $(<"$scratch/log")"
    done
    { cmake -S "$root/examples/libask" -B "$scratch/examples" -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$scratch/examples"; } >"$scratch/log" 2>&1 || fail "CMake: $(<"$scratch/log")"
}

# Members have rows of their own: not equally many, where the example lets them.
make_data() {
    local rank
    mkdir "$data"
    for ((rank = 0; rank < members; rank++)); do
        awk -v seed=$((rank + 1)) 'BEGIN { srand(seed); for (i = 0; i < 3001; i++) print int(rand() * 2000001) - 1000000 }' >"$data/numbers$rank"
        awk -v seed=$((rank + 9)) 'BEGIN { srand(seed); for (i = 0; i < 500 + 37 * seed; i++) {
            a = int(rand() * 100); b = int(rand() * 100); c = int(rand() * 100); print 3 * a - 2 * b + c + int(rand() * 5), a, b, c } }' >"$data/rows$rank"
        awk -v seed=$((rank + 5)) 'BEGIN { srand(seed); for (i = 0; i < 900 + 31 * seed; i++) print int(rand() * 2000) - 1000, "key" int(rand() * 200) }' >"$data/pairs$rank"
    done
}

# run EXAMPLE GROUP INPUT COMMAND... : by all members, on hosts from h1 on; GROUP RANK SIZE ROOT follow the command, then
# what is in $arguments. INPUTrank is standard input.
run() {
    local -r group=$2 input=$3
    local -a pids=()
    local rank
    for ((rank = 0; rank < members; rank++)); do
        spawn "$scratch/$group.$rank" "h$((rank + 1))" "${@:4}" "$group" "$rank" "$members" h2 "${arguments[@]//RANK/$rank}" <"$input$rank"
        pids+=("$spawned")
    done
    for ((rank = 0; rank < members; rank++)); do
        exit_of "${pids[rank]}"
        ((code == 0)) || fail "$1: rank $rank ended with $code: $(cat "$scratch/$group".*.err)"
    done
}

# all_have GROUP EXPECTED [RANKS] : so the outputs of these ranks (default: all).
all_have() {
    local rank
    for rank in ${3-$(seq 0 $((members - 1)))}; do
        diff "$2" "$scratch/$1.$rank.out" >"$scratch/differs" || fail "$1: rank $rank has another result: $(head -n 5 "$scratch/differs")"
    done
}

example_sum() {
    local -a arguments=()
    paste "$data"/numbers? | awk '{ print $1 + $2 + $3 + $4 }' >"$scratch/expected"
    run sum "sum$1" "$data/numbers" "$scratch/examples/sum"
    all_have "sum$1" "$scratch/expected"
}

example_histogram() {
    # The bins of rank 0 count.
    local -a arguments=(RANK7)
    local -r summary=$scratch/summary expected=$scratch/expected
    cat "$data"/numbers? | sort -n | awk '{ sum += $1; if (NR == 1) least = $1 } END { printf "%d numbers, %d to %d, sum %d\n", NR, least, $1, sum }' >"$summary"
    cat "$summary" >"$expected"
    cat "$data"/numbers? | awk -v least="$(cut -d' ' -f3 "$summary")" -v largest="$(cut -d' ' -f5 "$summary" | tr -d ,)" '
        { ++bins[int(($1 - least) * 7 / (largest - least + 1))] } END { for (i = 0; i < 7; i++) print bins[i] + 0 }' >>"$expected"
    run histogram "histogram$1" "$data/numbers" "$scratch/examples/histogram"
    all_have "histogram$1" "$summary" "0 1 2"
    all_have "histogram$1" "$expected" 3
}

example_columns() {
    local -a arguments=()
    cat "$data"/rows? | awk '{ for (i = 1; i <= NF; i++) { sum[i] += $i; squares[i] += $i * $i } }
        END { for (i = 1; i <= NF; i++) printf "%.6f %.6f\n", sum[i] / NR, squares[i] / NR - (sum[i] / NR) * (sum[i] / NR) }' >"$scratch/expected"
    run columns "columns$1" "$data/rows" "$scratch/examples/columns"
    all_have "columns$1" "$scratch/expected"
}

example_least_squares() {
    local -a arguments=("${data}/rowsRANK")
    PYTHONPATH=$prefix/lib/python3/dist-packages LD_LIBRARY_PATH=$prefix/lib \
        run least_squares "squares$1" "$data/rows" /usr/bin/python3 "$root/examples/libask/least_squares.py"
    all_have "squares$1" "$scratch/squares$1.0.out"
    cat "$data"/rows? | /usr/bin/python3 -c '
import sys, numpy
rows = numpy.loadtxt(sys.stdin)
want, *_ = numpy.linalg.lstsq(rows[:, 1:], rows[:, 0], rcond=None)
got = numpy.loadtxt(sys.argv[1])
assert got.shape == want.shape == (3,), (got, want)
assert numpy.allclose(got, want, rtol=1e-12, atol=0), (got, want)
assert abs(want - [3, -2, 1]).max() < 0.1, want' "$scratch/squares$1.0.out" || fail "least_squares: not what numpy makes of all rows"
}

# task EXAMPLE TASK COMMAND... : received on h4, sent by h1 to h3; what is in $arguments follows the command of sender HOST.
task() {
    local -r id=$2
    local -a pids=()
    local host
    spawn "$scratch/$id.4" h4 "${@:3}" receive "$id" 3 </dev/null
    pids+=("$spawned")
    for host in 1 2 3; do
        spawn "$scratch/$id.$host" "h$host" "${@:3}" send "$id" h4 "${arguments[@]//HOST/$host}" <"$data/pairs$host"
        pids+=("$spawned")
    done
    for host in "${pids[@]}"; do
        exit_of "$host"
        ((code == 0)) || fail "$1: one ended with $code: $(cat "$scratch/$id".*.err)"
    done
    LC_ALL=C sort "$scratch/expected" | diff - "$scratch/$id.4.out" >"$scratch/differs" ||
        fail "$1: another result: $(head -n 9 "$scratch/differs")"
}

example_wordcount() {
    local -a arguments=()
    cat "$data"/pairs[123] | awk '{ for (i = 1; i <= NF; i++) ++count[$i] } END { for (word in count) print word, count[word] }' >"$scratch/expected"
    task wordcount "words$1" "$scratch/examples/wordcount"
}

example_totals() {
    local -a arguments=()
    cat "$data"/pairs[123] | awk '{ sum[$2] += $1 } END { for (key in sum) print key, sum[key] }' >"$scratch/expected"
    task totals "totals$1" "$scratch/examples/totals"
    [[ $(<"$scratch/totals$1.2.out") == "$(wc -l <"$data/pairs2") lines" ]] || fail "totals: h2 says: $(<"$scratch/totals$1.2.out")"
    given_up "$1"
}

# Everybody is told of a wrong line.
given_up() {
    spawn "$scratch/up.4" h4 "$scratch/examples/totals" receive "up$1" 1 </dev/null
    local -r receives=$spawned
    spawn "$scratch/up.1" h1 "$scratch/examples/totals" send "up$1" h4 <<<'three apples'
    expect "$scratch/up.1" 3 'not NUMBER KEY: three apples' "$spawned"
    expect "$scratch/up.4" 11 'h1.*a line is not NUMBER KEY: three apples' "$receives"
}

example_spread() {
    local -a arguments=("$data/pairsHOST")
    cat "$data"/pairs[123] | awk '!($2 in n) || $1 < least[$2] { least[$2] = $1 } !($2 in n) || $1 > largest[$2] { largest[$2] = $1 } { ++n[$2] }
        END { for (key in n) print key, n[key], least[key], largest[key] }' >"$scratch/expected"
    PYTHONPATH=$prefix/lib/python3/dist-packages LD_LIBRARY_PATH=$prefix/lib \
        task spread "spread$1" /usr/bin/python3 "$root/examples/libask/spread.py"
}

# folded: how many packets the switch has added to others, or has all tuples of.
folded() {
    on sw askctl counters --json | jq '[.[] | select(.name == "value_folded" or .name == "ack_new") | .value | tonumber] | add'
}

install_and_build
make_data
for switch in on off; do
    lab_up --hosts "$members" --switch "$switch"
    for example; do
        before=0
        [[ $switch == off ]] || before=$(folded)
        "example_$example" "_$switch"
        [[ $switch == off ]] || (($(folded) > before)) || fail "the switch has added nothing for $example"
        pass "$example, switch $switch"
    done
    lab_do down
done
