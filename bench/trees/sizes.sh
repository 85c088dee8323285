# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Bytes on links against the size model: ask-plan is given the text and the geometry of its packets (model = "word-count"), and plans
# for bytes; what links then carry is counted. The plan knows the mean of the text's pieces alone; what the model says of each flow's own
# pieces is told beside it.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

# Of words of up to four letters. One that is chosen by samples of the words fills its rows more evenly.
readonly GEOMETRY='16*8'

# length_of FLOW: bytes of a message with what those sends' pieces of the text have, "1 4 5", by the model itself. Sets $bytes.
declare -A lengths=()
length_of() {
    local -r flow=$1
    if [[ -z ${lengths[$flow]-} ]]; then
        local at
        for at in $flow; do cat "$(printf '%s/size/part.%04d' "$work" "$at")"; done >"$work/piece"
        lengths[$flow]=$(jq -n --arg text "$work/piece" --arg geometry "$GEOMETRY" '
            {switch: [{name: "s"}], host: [{name: "from", switch: "s"}, {name: "to", switch: "s"}],
             message: {model: "word-count", $text, shards: 1, $geometry}}' |
            "$bin/ask-plan" - --receiver to --objective bytes --k 0 --json | jq '.links[0].bytes')
    fi
    bytes=${lengths[$flow]}
}

# flows PLAN: "LINK<TAB>SENDS" of each message on each link: those of one host's send, or of all below that a switch has added up.
flows() {
    jq -r --slurpfile tree "$work/tree.json" '
        ($tree[0].switch | map({(.name): (.parent // "")}) | add) as $parent
        | [foreach $tree[0].host[:-1][] as $host ({next: 1}; {next: (.next + $host.load), at: $host.switch, sends: [range(.next; .next + $host.load)]})] as $hosts
        | .aggregate as $blue
        # From a host up: on each link, who has added it up last.
        | [$hosts[] as $host | $host.sends[] as $send
            | {at: $host.at, by: "send \($send)"}
            | recurse(if .at == "" or $parent[.at] == "" then empty else
                (if IN(.at; $blue[]) then .by = .at else . end) | .at = $parent[.at] end)
            | (if IN(.at; $blue[]) then .by = .at else . end) | . + {send: $send}]
        | group_by([.at, .by])[] | "\(.[0].at)\t\(map(.send) | sort | map(tostring) | join(" "))"' "$1"
}

# by_pieces PLAN: {SWITCH: bytes} on the link above each, of the senders' own pieces instead of the mean of all.
by_pieces() {
    local at flow bytes
    while IFS=$'\t' read -r at flow; do
        length_of "$flow"
        printf '%s\t%s\n' "$at" "$bytes"
    done < <(flows "$1") | jq -Rn 'reduce (inputs / "\t") as [$at, $bytes] ({}; .[$at] += ($bytes | tonumber))'
}

# measure_size K: one task by the plan of at most K switches, objective bytes. A line of JSON in $work/lines.
measure_size() {
    local -r plan=$work/size/plan.json
    plan "$work/sized.json" "$plan" soar "$1" --objective bytes
    local -r before=$(carried)
    receive size --deadline 60 --geometry "$GEOMETRY" --placement "$plan"
    send size "" "--deadline 60"
    finish size
    jq -nc --argjson k "$1" --argjson links "$(since "$before")" --argjson pieces "$(by_pieces "$plan")" --slurpfile plan "$plan" --slurpfile stats "$work/size/stats.json" '
        def away($of): (. - $of) / $of;
        ($links | map({(.link): .}) | add) as $counted
        | [$plan[0].links[] | {link: "\(.from) -> \(.to)", predicted: .bytes, messages}
           | . + {counted: $counted[.link].bytes, fins: $counted[.link].fins, by_pieces: $pieces[.link | split(" ")[0]]}
           | .predicted as $p | .by_pieces as $own | .away = (.counted | away($p)) | .away_by_pieces = (.counted | away($own))] as $links
        | {$k, switches: ($plan[0].aggregate | length), geometry: $stats[0].geometry, runs: $stats[0].runs,
           predicted: ([$links[].predicted] | add), counted: ([$links[].counted] | add), $links}
        | .predicted as $p | .away = (.counted | away($p)) | .worst = (.links | max_by(.away | fabs))
        | .worst_by_pieces = (.links | max_by(.away_by_pieces | fabs))' >>"$work/lines"
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
