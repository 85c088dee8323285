#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# groups_levels_test.sh leaf_spine|tree: groups whose members are behind several switches. Each switch adds what is behind it:
# exact under loss, one vector of a rack on its uplinks, results copied at both levels, and nothing left on any switch.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

look() {
    "$lab" status --name "$name" --json >"$scratch/$1.json"
}

# entered FROM TO TYPE: packets that have entered the link from FROM towards TO between the looks `before` and `after`.
entered() {
    jq -n --slurpfile before "$scratch/before.json" --slurpfile after "$scratch/after.json" --arg from "$1" --arg to "$2" \
        --arg type "$3" 'def of($look): [$look[0].links[]
            | if .from == $from and .to == $to then .up elif .from == $to and .to == $from then .down else empty end
            | .[$type].packets] | add;
        of($after) - of($before)'
}

# about WHAT PACKETS CHUNKS: as many as there are chunks, and at most a fifth more, of what is sent again on a busy machine.
about() {
    (($2 >= $3 && 5 * $2 <= 6 * $3)) || fail "$1: $2 packets for $3 chunks: $(lab_do link)"
}

# Two racks of two. 352 int32 a chunk.
one_vector_a_rack() {
    local -r dir=$scratch/counts chunks=$((200000 / 352 + 1))
    local host
    make_vectors "$dir" --seed 10 --members 4 --count 200000 --dtype int32
    look before
    run_group "$dir" counts --dtype int32
    look after
    for host in h1 h2; do about "$host sends" "$(entered $host s1 value)" "$chunks"; done
    for host in h3 h4; do about "$host sends" "$(entered $host s2 value)" "$chunks"; done
    about "of h3 and h4 together" "$(($(entered s2 s3 value) + $(entered s2 s4 value)))" "$chunks"
    about "results for h3 and h4 together" "$(($(entered s1 s3 result) + $(entered s1 s4 result)))" "$chunks"
    for host in h1 h2; do about "results for $host" "$(entered s1 $host result)" "$chunks"; done
    for host in h3 h4; do about "results for $host" "$(entered s2 $host result)" "$chunks"; done
    on h1 askctl groups counts --json | jq -e '.note == "2 switches add, the last one sends results to all"
        and .chunks_collector * 20 < .chunks_switch and [.switches[] | [.last, .members, .open]] ==
        [[true, [0, 1], true], [false, [2, 3], true]]' >/dev/null || fail "h1 shows $(on h1 askctl groups counts --json)"
    pass "a vector a rack"
}

# The way of the rack's partials and of its results is cut in the middle, then the other.
links_cut() {
    local -r dir=$scratch/cut
    # Five seconds of the links, so that it is under way still after all that is done to them.
    make_vectors "$dir" --seed 11 --members 4 --count 3000000
    start_group "$dir" cut
    under_way h3 200000
    lab_do link s1 s3 down
    under_way h3 200000
    lab_do link s1 s3 up
    lab_do link s2 s4 down
    under_way h3 200000
    still_runs "$dir"
    lab_do link s2 s4 up
    finish_group "$dir"
    pass "links cut and mended"
}

leaf_spine() {
    lab_up --topology leaf-spine:2,2,2 --rate 40M
    one_vector_a_rack
    lab_do chaos set --loss 2 --dup 2 --reorder 2 --seed 40
    reduce_vectors lossy "--dtype float32" --seed 12 --members 4 --count 100000 --dtype float32
    lab_do chaos clear
    links_cut
    # A root in the other rack; and two of its rack alone.
    ROOT=h4 reduce_vectors other "" --seed 13 --members 4 --count 20000
    ROOT=h1 reduce_vectors three "" --seed 14 --members 3 --count 20000
    wait_for 10 has_no_group s1 1 2
    wait_for 10 has_no_group s2 3 4
    pass "nothing left"
}

# s1 the root, h1 h2 behind s2, h3 h4 behind s3, h5 at s1.
tree() {
    lab_up --topology tree:2,2,2
    lab_do chaos set --loss 1 --dup 1 --seed 41
    ROOT=h5 reduce_vectors top "" --seed 15 --members 5 --count 60000
    # From below, one uplink leads to the other rack and to h5: no copies, and all else as before.
    dir=$scratch/below
    make_vectors "$dir" --seed 16 --members 5 --count 60000
    run_group "$dir" below
    explains h1 below '2 switches add, the collector sends results: members 198.18.[35].2 and 198.18.[35].2 are both behind port to-s1' ||
        fail "h1 explains $(on h1 askctl group explain below)"
    for switch in s1 s2 s3; do
        on "$switch" askctl counters --json | jq -e 'any(.[]; (.name == "value_folded" or .name == "value_partial") and .value > 0)' >/dev/null ||
            fail "$switch has added nothing"
    done
    wait_for 10 has_no_group s1 5
    wait_for 10 has_no_group s2 1 2
    wait_for 10 has_no_group s3 3 4
    pass "tree:2,2,2"
}

[[ $(type -t "${1-}") == function && $1 =~ ^(leaf_spine|tree)$ ]] || fail "usage: $0 leaf_spine|tree"
"$1"
