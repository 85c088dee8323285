# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# One word count by each way that a network of several switches has: what its links carry. Any topology of tools/lab.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

# bytes_carried: {fabric, receiver, fabric_all, receiver_all}, so far: frames of tuples and FINs on all links between switches, both ways, and on the
# receiver's; and with control traffic, which fetches from switches are.
bytes_carried() {
    lab link --json | jq -c --arg receiver "$receiver" '
        def tuples: [.data, .long, .var, .fin | .bytes // 0] | add;
        def all: [.[] | objects | .bytes // 0] | add;
        [.[] | select((.from | test("^s")) and (.to | test("^s"))) | .up, .down] as $fabric
        | [.[] | select(.from == $receiver) | .down] as $down
        | {fabric: ($fabric | map(tuples) | add // 0), receiver: ($down | map(tuples) | add),
           fabric_all: ($fabric | map(all) | add // 0), receiver_all: ($down | map(all) | add)}'
}

# run_rack WAY OPTION... : of ask-recv. A line of JSON in $work/lines.
run_rack() {
    local -r way=$1 task=rack before=$(bytes_carried) started=$(now_ms)
    shift
    receive "$task" --deadline 60 --geometry "$GEOMETRY" "$@"
    send "$task" "" "--deadline 60"
    finish "$task"
    jq -nc --arg topology "$topology" --arg way "$way" --argjson wall $(($(now_ms) - started)) --argjson before "$before" \
        --argjson after "$(bytes_carried)" --slurpfile stats "$work/$task/stats.json" '
        ($after | with_entries(.value -= $before[.key])) + {$topology, $way, seconds: ($wall / 1000),
         geometry: $stats[0].geometry, runs: $stats[0].runs, without: ($stats[0].without // []), notes: [$stats[0].switches[]? | .note // empty | select(. != "")]}' >>"$work/lines"
}

part_racks() {
    local k
    tree_up --topology "$topology" --relays
    describe
    load "$work/tree.json"
    prepare rack
    run_rack "none" --no-switch
    run_rack "the receiver's"
    run_rack "each sender's own" --switches own
    for k in ${budgets//,/ }; do
        plan "$work/tree.json" "$work/rack/plan.json" soar "$k"
        run_rack "relays, k = $k" --placement "$work/rack/plan.json"
    done
    lab down
}
