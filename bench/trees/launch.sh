# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# How long relays of all switches take to open, by the log of the receiver's agent: of a lab's first task, which finds no connections and
# no programs, and of those after it. A lab each run.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

readonly LAUNCHES=4

# launch RUN TASK: a line of JSON in $work/lines.
launch() {
    local -r task=launch$2
    local opened
    prepare "$task"
    receive "$task" --deadline 60 --placement "$work/launch.json"
    send "$task" "" "--deadline 60"
    finish "$task"
    opened=$(lab log "$receiver" | sed -nE "s/.*task $task: ([0-9]+) relays in ([0-9]+) levels opened in ([0-9.]+) s.*/\\1 \\2 \\3/p")
    jq -nc --argjson run "$1" --argjson task "$2" --arg opened "$opened" '($opened | split(" ") | map(tonumber)) as [$relays, $levels, $seconds]
        | {$run, $task, $relays, $levels, $seconds}' >>"$work/lines"
}

part_launch() {
    local run task
    for ((run = 0; run < runs; run++)); do
        note "$topology, run $run"
        tree_up --topology "$topology" --relays
        describe
        load "$work/tree.json"
        plan "$work/tree.json" "$work/launch.json" all-blue 999
        for ((task = 1; task <= LAUNCHES; task++)); do launch "$run" "$task"; done
        lab down
    done
}
