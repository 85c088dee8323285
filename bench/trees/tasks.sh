# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Word counts on a lab of several switches: the lab, its topology with loads, inputs with an answer, receives and sends, what
# links have carried. Source it after lab_job.sh; settings are those of bench/trees/run.
# What others read, and what is set there.
# shellcheck disable=SC2034,SC2154

# tree_up OPTION... : as tools/lab up. What is sent again counts in bytes and packets: slow machines are no loss.
tree_up() {
    lab up --agent-args "--rto-floor-us 300000" "$@" >"$work/up.err" 2>&1 || die "$(<"$work/up.err")"
}

# The lab's topology with the hosts' loads; the last host receives. Sets $receiver.
describe() {
    lab status --json | jq --arg loads "$loads" '($loads | split(",") | map(tonumber)) as $loads | .topology
        | .host |= [range(length) as $i | .[$i] + {load: $loads[$i % ($loads | length)]}]' >"$work/tree.json"
    receiver=$(jq -r '.host[-1].name' "$work/tree.json")
}

# load TREE : sets $senders, "HOST SENDS" each, and $sends, of all of them.
load() {
    mapfile -t senders < <(jq -r '.host[:-1][] | select(.load > 0) | "\(.name) \(.load)"' "$1")
    sends=$(jq '[.host[:-1][].load] | add' "$1")
}

# prepare TASK: a folder with a file for each of $sends, and the answer. Words of hexadecimal digits become words of letters, as ask-plan takes them.
prepare() {
    local -r dir=$work/$1
    mkdir -p "$dir"
    "$bin/ask-bench-job" generate --tuples $((tuples * sends)) --zipf --exponent 1 --keys "$keys" | tr 0-9 q-z >"$dir/words"
    split --number="l/$sends" --numeric-suffixes=1 --suffix-length=4 "$dir/words" "$dir/part."
    LC_ALL=C sort "$dir/words" | LC_ALL=C uniq -c | awk '{ print $2 "\t" $1 }' >"$dir/reference"
    rm "$dir/words"
}

# What entered each link towards the receiver so far: {link, fins, bytes, packets}, of FINs first copies, of those between switches and the receiver's.
carried() {
    lab link --json | jq -c --arg receiver "$receiver" '
        def sum(f): [(.data, .long, .var, .fin) | f // 0] | add;
        def of: {fins: (.first_fins // 0), bytes: sum(.bytes), packets: sum(.packets)};
        [.[] | select(.from == $receiver) | {link: "\(.to) -> \(.from)"} + (.down | of)]
        + [.[] | select((.from | test("^s")) and (.to | test("^s"))) | {link: "\(.from) -> \(.to)"} + (.up | of)]'
}

# since BEFORE : what has entered each link since.
since() {
    jq -nc --argjson before "$1" --argjson after "$(carried)" \
        '[range($before | length) as $i | $after[$i] | .fins -= $before[$i].fins | .bytes -= $before[$i].bytes | .packets -= $before[$i].packets]'
}

# What a host runs: its part of the sends, all at once. With a gate each has half of its file, and the rest once that is there.
# shellcheck disable=SC2016 # expanded there
readonly SENDS='task=$1 to=$2 gate=$3 options=$4 && shift 4 && pids=()
    in_halves() {
        local -r all=$(wc -l <"$1")
        head -n $((all / 2)) "$1"
        # Of many that wait none starts a process for it.
        exec 8<> <(:)
        until [[ -e $gate ]]; do read -rt 0.5 -u 8 || true; done
        tail -n +$((all / 2 + 1)) "$1"
    }
    for file; do
        if [[ -z $gate ]]; then set -- "$file"; else set -- -; fi
        ask-send --quiet --task "$task" --to "$to" --count $options "$1" < <([[ -z $gate ]] || in_halves "$file") & pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || exit $?; done'

# What no standstill of theirs may outlast, as a whole. Of seconds.
readonly LONGEST=300

declare -A commands=() # pid: "TASK NODE"

# begin TASK NODE COMMAND... : in the background; its output goes to $work/TASK/NODE.out, its complaints to NODE.err.
begin() {
    local -r task=$1 node=$2
    shift 2
    lab exec "$node" -- timeout "$LONGEST" "$@" >"$work/$task/$node.out" 2>"$work/$task/$node.err" </dev/null &
    commands[$!]="$task $node"
}

# receive TASK OPTION... : of ask-recv.
receive() {
    local -r task=$1
    shift
    begin "$task" "$receiver" ask-recv --quiet --task "$task" --senders "$sends" --op count --stats "$work/$task/stats.json" "$@"
}

# send TASK GATE OPTIONS: the prepared files from where $senders say. No GATE: all at once.
send() {
    local host count next=1 each
    local -a files
    for each in "${senders[@]}"; do
        read -r host count <<<"$each"
        files=()
        for ((; count > 0; count--)); do
            files+=("$(printf '%s/%s/part.%04d' "$work" "$1" "$next")")
            next=$((next + 1))
        done
        begin "$1" "$host" bash -c "$SENDS" _ "$1" "$receiver" "$2" "$3" "${files[@]}"
    done
}

# finish TASK: all its commands have succeeded, and its answer is the reference's.
finish() {
    local pid code
    for pid in "${!commands[@]}"; do
        [[ ${commands[$pid]% *} == "$1" ]] || continue
        code=0
        wait "$pid" || code=$?
        ((code == 0)) || die "task $1: ${commands[$pid]#* } failed (exit code $code): $(tail -n 5 "$work/$1"/*.err)"
        unset "commands[$pid]"
    done
    LC_ALL=C sort "$work/$1/$receiver.out" | cmp -s - "$work/$1/reference" || die "task $1: the answer differs from sort | uniq -c"
}

end_tasks() {
    local pid
    # Of the shell's own that still run: the number of one that has ended may be another's.
    for pid in $(jobs -pr); do [[ -z ${commands[$pid]-} ]] || kill "$pid" 2>/dev/null || true; done
}

# plan TREE PLAN STRATEGY K OPTION...
plan() {
    local -r tree=$1 to=$2 strategy=$3 most=$4
    shift 4
    "$bin/ask-plan" "$tree" --receiver "$receiver" --strategy "$strategy" --k "$most" "$@" --json >"$to" || die "no plan by $strategy"
}

# Of a plan's links.
readonly PLANNED='map({link: "\(.from) -> \(.to)", fins: .messages})'
