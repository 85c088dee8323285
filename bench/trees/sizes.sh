# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Bytes on links against the size model: ask-plan is given the text and the geometry of its packets (model = "word-count"), and plans
# for bytes; what links then carry is counted.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

# Of words of up to four letters. One that is chosen by samples of the words fills its rows more evenly.
readonly GEOMETRY='16*8'

# measure_size K: one task by the plan of at most K switches, objective bytes. A line of JSON in $work/lines.
measure_size() {
    local -r plan=$work/size/plan.json
    plan "$work/sized.json" "$plan" soar "$1" --objective bytes
    local -r before=$(carried)
    receive size --deadline 60 --geometry "$GEOMETRY" --placement "$plan"
    send size "" "--deadline 60"
    finish size
    jq -nc --argjson k "$1" --argjson links "$(since "$before")" --slurpfile plan "$plan" --slurpfile stats "$work/size/stats.json" '
        def away($of): (. - $of) / $of;
        ($links | map({(.link): .}) | add) as $counted
        | [$plan[0].links[] | {link: "\(.from) -> \(.to)", predicted: .bytes, messages}
           | . + {counted: $counted[.link].bytes, fins: $counted[.link].fins} | .predicted as $p | .away = (.counted | away($p))] as $links
        | {$k, switches: ($plan[0].aggregate | length), geometry: $stats[0].geometry, runs: $stats[0].runs,
           predicted: ([$links[].predicted] | add), counted: ([$links[].counted] | add), $links}
        | .predicted as $p | .away = (.counted | away($p)) | .worst = (.links | max_by(.away | fabs))' >>"$work/lines"
}

part_sizes() {
    local k
    tree_up --topology "$topology" --relays
    describe
    load "$work/tree.json"
    prepare size
    cat "$work"/size/part.* >"$work/text"
    jq --arg text "$work/text" --argjson shards "$sends" --arg geometry "$GEOMETRY" \
        '.message = {model: "word-count", $text, $shards, $geometry}' "$work/tree.json" >"$work/sized.json"
    for k in ${budgets//,/ }; do measure_size "$k"; done
    lab down
}
