# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# SOAR's online workloads (Fig. 7), live: tasks arrive one after the other at switches that take so many at a time, and go again
# while others run. SOAR's are placed by ask-controld; those of other strategies by ask-plan, on what a book of places says is left.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

readonly LEASE=5 # seconds

# bounded_controller: the lab's, told of capacities, once it is as old as its first lease.
bounded_controller() {
    local -r conf=${ASK_LAB_DIR:-/run/ask-lab}/$job_lab/conf
    jq --argjson capacity "$capacity" '.switch |= map(.capacity = $capacity)' "$conf/network.json" >"$work/network.json"
    cp "$work/network.json" "$conf/network.json"
    # One host receives all tasks: its part of a switch's places is all of them.
    printf 'quota_places = %s\nlease_seconds = %s\n' "$capacity" "$LEASE" | cat - "$conf/s1.controld.toml" >"$work/controld.toml"
    cp "$work/controld.toml" "$conf/s1.controld.toml"
    lab restart s1.controld
    wait_until 30000 is_grown || die "the controller still waits for its first lease after 30 s"
}

controller() {
    lab exec s1 -- askctl --controller "unix:${ASK_LAB_DIR:-/run/ask-lab}/$job_lab/s1/controller.sock" "$@"
}

is_grown() {
    ! controller plans | grep -q ' more$'
}

# Whether the controller holds a place nowhere, and no plan.
all_given_back() {
    controller relays --json | jq -e 'all(.[]; .taken == 0)' >/dev/null && controller plans --json | jq -e '. == []' >/dev/null
}

# arrive N: the topology of arrival N, in $work/tree.N.json: a half of them with nearly equal loads, a half with a few large ones
# (SOAR section 5.2), of a mean of one and a half sends a leaf. The same for every strategy.
arrive() {
    awk -v n="$(jq '.host | length - 1' "$work/tree.json")" -v seed="$1" 'BEGIN {
        srand(seed); uniform = rand() < 0.5; text = ""
        for (i = 0; i < n; ++i) {
            load = uniform ? 1 + int(2 * rand()) : 1
            if (!uniform) while (load < 8 && rand() < 0.3) load *= 2
            text = text (i ? "," : "") load
        }
        print text }' >"$work/loads"
    jq --arg loads "$(<"$work/loads")" '($loads | split(",") | map(tonumber)) as $loads
        | .host |= [range(length) as $i | .[$i] + {load: ($loads[$i] // 1)}]' "$work/tree.json" >"$work/tree.$1.json"
}

# left_over TREE BOOK: the tree with switches of which the book has places left. A book's lines are "TASK SWITCH".
left_over() {
    jq --rawfile book "$2" --argjson capacity "$capacity" '
        ($book | split("\n") | map(select(. != "") | split(" ")[1]) | group_by(.) | map({(.[0]): length}) | add // {}) as $taken
        | .switch |= map(.available = (($taken[.name] // 0) < $capacity))' "$1"
}

# only TREE SWITCHES: the tree with no others than these.
only() {
    jq --argjson names "$2" '.switch |= map(.available = (.name | IN($names[])))' "$1"
}

cost() {
    jq '[.links[].messages] | add' "$1"
}

# most_taken BOOK
most_taken() {
    cut -d' ' -f2 "$1" | sort | uniq -c | awk '$1 > most { most = $1 } END { print most + 0 }'
}

# compute STRATEGY: the sum of what its plans cost, no task run: SOAR's arithmetic on the same arrivals and departures.
compute() {
    local n
    : >"$work/book"
    for ((n = 0; n < arrivals; n++)); do
        ((n < running)) || sed -i "/^$((n - running)) /d" "$work/book"
        left_over "$work/tree.$n.json" "$work/book" >"$work/left.json"
        plan "$work/left.json" "$work/computed.$1.$n" "$1" "$budgets"
        jq -r --arg n "$n" '.aggregate[] | "\($n) \(.)"' "$work/computed.$1.$n" >>"$work/book"
    done
}

is_placed() {
    lab exec "$receiver" -- askctl tasks --json | jq -e --arg task "$1" 'any(.[]; .id == $task and .state == "streaming")' >/dev/null
}

# aggregating TASK: as its receiver says, the switches whose relays it has, as JSON.
aggregating() {
    lab exec "$receiver" -- askctl tasks --json | jq -c --arg task "$1" '[.[] | select(.id == $task) | .relays[].name] | sort'
}

# admit STRATEGY N
admit() {
    local -r task=$1-$2 tree=$work/tree.$2.json
    local -a how=(--placement auto --k "$budgets")
    load "$tree"
    prepare "$task"
    printf '%s\n' "$sends" >"$work/$task/sends"
    left_over "$tree" "$work/book" >"$work/left.json"
    if [[ $1 != soar ]]; then
        plan "$work/left.json" "$work/$task/chosen.json" "$1" "$budgets"
        how=(--placement "$work/$task/chosen.json")
    fi
    receive "$task" --deadline 60 "${how[@]}"
    send "$task" "$work/$task/go" "--deadline 60"
    wait_until 60000 is_placed "$task" || die "$task has not begun within 60 s: $(tail -n 3 "$work/$task"/*.err)"
    aggregating "$task" >"$work/$task/switches"
    only "$tree" "$(<"$work/$task/switches")" >"$work/$task/tree.json"
    plan "$work/$task/tree.json" "$work/$task/plan.json" all-blue 999
    jq -r --arg n "$2" '.[] | "\($n) \(.)"' "$work/$task/switches" >>"$work/book"
    (($(most_taken "$work/book") <= capacity)) || die "$task: a switch has more than $capacity tasks: $(<"$work/book")"
    [[ $1 != soar ]] || controller relays --json | jq -e --argjson capacity "$capacity" 'all(.[]; .taken <= $capacity)' >/dev/null ||
        die "$task: by the controller's own account a switch has more than $capacity tasks"
}

# go STRATEGY N: the task has the rest of its input, and ends; only its FINs are on links meanwhile. A line in $work/lines.
go() {
    local -r task=$1-$2
    local -r before=$(carried) most=$(most_taken "$work/book")
    : >"$work/$task/go"
    finish "$task"
    sed -i "/^$2 /d" "$work/book"
    plan "$work/tree.$2.json" "$work/red.json" all-red 0
    jq -nc --arg strategy "$1" --argjson n "$2" --argjson links "$(since "$before")" --argjson most_taken "$most" \
        --argjson all_red "$(cost "$work/red.json")" --argjson computed "$(cost "$work/computed.$1.$2")" \
        --slurpfile plan "$work/$task/plan.json" --slurpfile stats "$work/$task/stats.json" '
        ($plan[0].links | '"$PLANNED"') as $planned
        | {$strategy, $n, switches: $plan[0].aggregate, $all_red, $computed, planned: ([$planned[].fins] | add), counted: ([$links[].fins] | add),
           equal: (($planned | sort) == ($links | map(select(.fins > 0) | {link, fins}) | sort)), $most_taken, runs: $stats[0].runs,
           bytes: ([$links[].bytes] | add)}' >>"$work/lines"
    rm -r "${work:?}/$task"
}

run_strategy() {
    local n
    compute "$1"
    : >"$work/book"
    for ((n = 0; n < arrivals; n++)); do
        ((n < running)) || go "$1" $((n - running))
        admit "$1" "$n"
    done
    for ((n = arrivals > running ? arrivals - running : 0; n < arrivals; n++)); do go "$1" "$n"; done
    [[ $1 != soar ]] || wait_until $((LEASE * 3000)) all_given_back ||
        die "the controller still has: $(controller plans) $(controller relays)"
}

part_online() {
    local n strategy
    [[ $budgets =~ ^[0-9]+$ ]] || usage_error "--part online takes one --k, not $budgets"
    tree_up --topology "$topology" --controller
    describe
    bounded_controller
    for ((n = 0; n < arrivals; n++)); do arrive "$n"; done
    for strategy in ${strategies//,/ }; do
        note "$strategy: $arrivals tasks, $running at a time, k = $budgets, capacity $capacity"
        run_strategy "$strategy"
    done
    lab down
}
