# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Long proofs: whatever is lost on the way, dies or is cut in the middle of a task, its answer is exact.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

readonly FAULTS=(--loss 2 --dup 2 --reorder 2)

# takes_in RELAY: its part of the task, which is the only one, has all its senders, and tuples of theirs have come.
takes_in() {
    lab exec "$1" -- askctl tasks --json |
        jq -e 'any(.[]; .role == "receiver" and .state == "streaming" and .stats.tuples_in > 0)' >/dev/null
}

# sends_out HOST TASK
sends_out() {
    lab exec "$1" -- askctl tasks --json |
        jq -e --arg task "$2" 'any(.[]; .id == $task and .role == "sender" and .stats.packets_sent > 0)' >/dev/null
}

all_send() {
    local each
    for each in "${senders[@]}"; do sends_out "${each% *}" "$1" || return 1; done
}

# cut_for_a_while FROM TO
cut_for_a_while() {
    lab link "$1" "$2" down
    sleep 2
    lab link "$1" "$2" up
}

# lost: packets of ASK's that the links have lost so far.
lost() {
    lab chaos status --json | jq '[.. | objects | .lost? // empty | numbers] | add // 0'
}

# tell TASK TOPOLOGY K KILLED CUT STARTED LOST: a line of JSON in $work/lines.
tell() {
    jq -nc --arg task "$1" --arg topology "$2" --argjson k "$3" --arg killed "$4" --arg cut "$5" --argjson wall $(($(now_ms) - $6)) \
        --argjson lost $(($(lost) - $7)) --slurpfile stats "$work/$1/stats.json" '
        $stats[0] as $s | {$topology, $k, relays: ($s.relays | length), switches: ([$s.switches[]? | select(.tuples > 0)] | length),
            $killed, $cut, $lost, runs: $s.runs, tuples: $s.tuples_in, exact: $s.complete, seconds: ($wall / 1000)}' | tee -a "$work/lines" >&2
}

# On each sender's own switch, with two links cut one after the other.
own_switches() {
    local -r shape=leaf-spine:4,2,4
    local run started before
    tree_up --topology "$shape"
    lab chaos set "${FAULTS[@]}" --seed 7
    describe
    load "$work/tree.json"
    for ((run = 0; run < runs; run++)); do
        prepare "own$run"
        started=$(now_ms) before=$(lost)
        receive "own$run" --deadline 40 --switches own
        send "own$run" "$work/own$run/go" "--deadline 40 --merge-window 0"
        wait_until 60000 all_send "own$run" || die "own$run: not all senders have sent anything within 60 s"
        cut_for_a_while s2 s5
        cut_for_a_while s3 s6
        : >"$work/own$run/go"
        finish "own$run"
        tell "own$run" "$shape" 0 "" "s2-s5, s3-s6" "$started" "$before"
    done
    lab down
}

# choose_victims PLAN TURN: sets $victim, the host of a relay of the plan, another one each time, $dies, its relay or its agent,
# and $cut, "FROM TO", a link that carries something and is none of that switch's.
choose_victims() {
    local switch
    switch=$(jq -r --argjson turn "$2" '.aggregate | .[$turn % length]' "$1")
    victim=r${switch#s}
    dies=$victim.relayd
    (($2 % 2 == 0)) || dies=$victim
    cut=$(jq -r --argjson turn "$2" --arg switch "$switch" --arg receiver "$receiver" \
        '[.links[] | select(.from != $switch and .to != $switch and .to != $receiver)] | .[$turn * 7 % length] | "\(.from) \(.to)"' "$1")
}

# One by SOAR's plan of K switches: a relay is killed, then a link is cut.
placed_by_soar() {
    local -r task=soar$1-$2 k=$1 turn=$2
    local started before victim dies cut
    prepare "$task"
    plan "$work/tree.json" "$work/$task/plan.json" soar "$k"
    choose_victims "$work/$task/plan.json" "$turn"
    started=$(now_ms) before=$(lost)
    receive "$task" --deadline 40 --placement "$work/$task/plan.json"
    send "$task" "$work/$task/go" "--deadline 40 --merge-window 0"
    wait_until 60000 takes_in "$victim" || die "$task: nothing has come to relay $victim within 60 s"
    lab kill "$dies" -KILL
    # shellcheck disable=SC2086 # two nodes
    cut_for_a_while $cut
    : >"$work/$task/go"
    finish "$task"
    [[ $dies == *.relayd ]] || lab restart "$victim"
    lab restart "$victim.relayd"
    tell "$task" "$topology" "$k" "$dies" "${cut/ /-}" "$started" "$before"
}

part_trouble() {
    local k run turn=0
    own_switches
    tree_up --topology "$topology" --relays
    lab chaos set "${FAULTS[@]}" --seed 11
    describe
    load "$work/tree.json"
    for ((run = 0; run < runs; run++)); do
        for k in ${budgets//,/ }; do
            placed_by_soar "$k" "$turn"
            turn=$((turn + 1))
        done
    done
    lab down
}
