# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# One task by each strategy and number of switches: flows and bytes on links, and time.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

# run_way STRATEGY K RATE RUN: a line of JSON in $work/lines.
run_way() {
    local -r plan=$work/way/plan.json
    plan "$work/tree.json" "$plan" "$1" "$2"
    local -r before=$(carried) started=$(now_ms)
    receive way --deadline 60 --placement "$plan"
    send way "" "--deadline 60"
    finish way
    local -r wall=$(($(now_ms) - started))
    jq -nc --arg strategy "$1" --argjson k "$2" --arg rate "$3" --argjson run "$4" --argjson wall "$wall" --argjson links "$(since "$before")" \
        --slurpfile plan "$plan" --slurpfile stats "$work/way/stats.json" '
        ($plan[0].links | '"$PLANNED"') as $planned
        | {$strategy, $k, $rate, $run, switches: ($plan[0].aggregate | length),
           planned: ([$planned[].fins] | add), counted: ([$links[].fins] | add),
           equal: (($planned | sort) == ($links | map({link, fins}) | sort)),
           bytes: ([$links[].bytes] | add), packets: ([$links[].packets] | add), seconds: ($wall / 1000),
           geometry: $stats[0].geometry, runs: $stats[0].runs}' >>"$work/lines"
}

part_ways() {
    local rate run k strategy
    local -a limit
    for rate in ${rates//,/ }; do
        note "$topology, rate $rate"
        limit=()
        [[ $rate == none ]] || limit=(--rate "$rate")
        tree_up --topology "$topology" --relays "${limit[@]}"
        describe
        load "$work/tree.json"
        prepare way
        for ((run = 0; run < runs; run++)); do
            run_way all-red 0 "$rate" "$run"
            for k in ${budgets//,/ }; do
                for strategy in ${strategies//,/ }; do run_way "$strategy" "$k" "$rate" "$run"; done
            done
            run_way all-blue 999 "$rate" "$run"
        done
        lab down
    done
}
