#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# groups_test.sh: vectors of every type and operator, groups of one to eight, no value to 10 MB, against an independent
# reference: byte for byte the same at all members, through the switch and with --no-switch.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

types_and_operators() {
    local dtype op
    for dtype in int32 int64 float32 float64; do
        for op in sum prod min max and or xor; do
            [[ $dtype != float* || $op =~ ^(sum|prod|min|max)$ ]] || continue
            reduce_vectors "$dtype-$op" "--dtype $dtype --op $op" --seed "$RANDOM" --members 4 --count 5001 \
                --dtype "$dtype" --op "$op"
        done
    done
    for dtype in float32 float64; do
        reduce_vectors "$dtype-odd" "--dtype $dtype" --seed 7 --members 4 --count 20000 --dtype "$dtype" --odd
    done
    pass "every type and operator"
}

sizes_and_lengths() {
    local size count
    for size in 1 2 8; do
        for count in 0 1 351 353 30011; do
            reduce_vectors "n$size-$count" "--dtype float32" --seed "$count" --members "$size" --count "$count" --dtype float32
        done
    done
    pass "one to eight members, no value to many"
}

# root_link GROUP "FLAGS": of eight members with 4 MB each, in hundredths of a vector: what the root's own link carried
# meanwhile, $out of its host and $in to it.
root_link() {
    local -r vector=$((500000 * 8))
    out=$(carried h1) in=$(carried h1 rx)
    reduce_vectors "$1" "$2" --seed 12 --members 8 --count 500000
    out=$((($(carried h1) - out) * 100 / vector)) in=$((($(carried h1 rx) - in) * 100 / vector))
}

# What a switch on the way is for: the collector's link carries its own member's vector and the result, and not all of
# the members'.
one_vector_each_way() {
    root_link added ""
    ((out >= 100 && out < 200 && in >= 100 && in < 200)) ||
        fail "with a switch that adds, the root's link carried $out out and $in in, in hundredths of a vector: more than about one each way"
    root_link collected "--no-switch"
    ((out >= 700 && in >= 700)) ||
        fail "without the switch's help, the root's link carried only $out out and $in in, in hundredths of a vector: it cannot have been measured"
    pass "the root's link carries about one vector each way"
}

lab_up --hosts 8
types_and_operators
sizes_and_lengths
reduce_vectors big "" --seed 9 --members 4 --count 1250000
pass "10 MB"
reduce_vectors alone "--no-switch --dtype int32 --op xor" --seed 10 --members 4 --count 100000 --dtype int32 --op xor
pass "without the switch"
one_vector_each_way

# Over standard input, the result in a file.
dir=$scratch/pipes
make_vectors "$dir" --seed 11 --members 2 --count 1000
for rank in 0 1; do
    spawn "$dir/m$rank" "h$((rank + 1))" ask-allreduce --group pipes --rank "$rank" --size 2 --root h1 \
        --output "$dir/result$rank" <"$dir/in$rank"
    pids[rank]=$spawned
done
for rank in 0 1; do
    exit_of "${pids[rank]}"
    ((code == 0)) || fail "rank $rank by standard input ended with $code: $(cat "$dir/m$rank.err")"
    cmp "$dir/result$rank" "$dir/expected" || fail "rank $rank: --output is wrong"
done
pass "standard input, --output"
