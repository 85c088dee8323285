# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Runs what soak_plan.sh has drawn: the lab, a round's tasks and events, and the judgement of both. Functions that can
# find something wrong return 1 and say what in $soak_why.
# What is drawn is soak_plan.sh's, what is found tools/soak's to read.
# shellcheck disable=SC2034,SC2154

readonly ROUND_SECONDS=150
# How long what a round has made may take to go.
readonly LEAK_SECONDS=20
# Rounds from one thorough look for leaks to the next: it costs as much as a round.
readonly LEAK_ROUNDS=4
# Rounds of a new lab after which its daemons have all the threads that they will ever have.
readonly SETTLING_ROUNDS=8

lab_round=0 # of the lab at hand

soak_why=
soak_summary=
soak_seed=
soak_work=
soak_lab=
soak_lab_dir=
gate= # what senders read after their file, if not nothing
feeders=() # processes that write what a sender reads
soak_faults={}      # what the injectors have done so far, as JSON
launched=0          # processes of the round
round_began=0       # at so many milliseconds
events_end=0        # of the round, the same
declare -A end_ms   # TASK: when the last of its processes ended
declare -A soak_pid # TASK.recvN, TASK.againN, TASK.sendI.N: process
declare -A soak_end # the same: exit code
declare -A current  # TASK.recv, TASK.sendI: which of them is the last
declare -A takers   # TASK: all that want its result
declare -A sends    # TASK: all its senders
declare -A hurt     # TASK: an event was aimed at it
declare -A stalled  # TASK: milliseconds that events had it stand still
declare -A counts=([tasks]=0 [exact]=0 [incomplete]=0 [kept]=0 [errors]=0 [unaimed]=0 [tuples]=0)

# use_soak WORK SEED
use_soak() {
    soak_work=$1
    soak_seed=$2
    soak_lab=soak$$
    soak_lab=${soak_lab:0:12}
    soak_lab_dir=$ASK_LAB_DIR/$soak_lab
}

soak_lab() {
    local -r command=$1
    shift
    "$ASK_ROOT/tools/lab" "$command" --name "$soak_lab" "$@"
}

end_soak() {
    local pid
    for pid in $(jobs -pr); do kill -KILL "$pid" 2>/dev/null || true; done
    soak_lab down || true
}

wrong() {
    soak_why=$*
    return 1
}

counts_json() {
    local name
    for name in "${!counts[@]}"; do printf '%s\t%s\n' "$name" "${counts[$name]}"; done |
        jq -Rn '[inputs | split("\t") | {(.[0]): (.[1] | tonumber)}] | add'
}

counts_text() {
    printf '%s tasks, %s tuples: %s exact, %s incomplete as allowed, %s kept and taken again, %s errors by name, %s of all tasks that nobody aimed at had no whole result; events: ' \
        "${counts[tasks]}" "${counts[tuples]}" "${counts[exact]}" "${counts[incomplete]}" "${counts[kept]}" "${counts[errors]}" \
        "${counts[unaimed]}"
    local name
    for name in "${!counts[@]}"; do [[ $name != *_* ]] || printf '%s %s\n' "${name//_/-}" "${counts[$name]}"; done | sort | paste -sd, |
        sed 's/,/, /g'
}

leak_check() {
    ASK_LAB_DIR=$ASK_LAB_DIR "$ASK_ROOT/tests/deaths/leak_check" "$@"
}

# Adds the counters of the lab at hand, which is about to go, to those of its predecessors.
collect_faults() {
    local now
    now=$(soak_lab chaos status --json 2>/dev/null) || return 0
    soak_faults=$(jq -n --argjson before "$soak_faults" --argjson now "$now" \
        '$now.sum | to_entries | map({key, value: (.value + ($before[.key] // 0))}) | from_entries | del(.held_now)')
}

# renew_lab NUMBER: a lab as drawn, warm: every channel, connection and thread that rounds need has been there once.
renew_lab() {
    local host
    lab_round=0
    collect_faults
    soak_lab down
    plan_lab "$1"
    printf '%s\n' "${plan_switch[@]}" >"$soak_work/switch.toml"
    printf '%s\n' "${plan_agents[@]}" >"$soak_work/agent.toml"
    local -a shape=(--hosts "$SOAK_HOSTS" --chaos)
    if ((soak_relays)); then
        plan_relays_lab
        shape=(--topology "$plan_tree" --relays)
    fi
    soak_lab up "${shape[@]}" --queues "$plan_queues" --config-switch "$soak_work/switch.toml" --config-agent "$soak_work/agent.toml" \
        >"$soak_work/up.log" 2>&1 || { wrong "no lab: $(tail -n 5 "$soak_work/up.log")"; return 1; }
    ((!soak_relays)) || configure_relays || return
    for ((host = 1; host <= SOAK_HOSTS; host++)); do
        plan_warm_up "$1" "$host"
        run_gated || return
    done
    ((soak_relays)) || leak_check snapshot "$soak_lab" "$soak_work/snapshot" || wrong "no snapshot of the lab"
}

# Runs the planned tasks with the senders' inputs held open until all have joined: no warming up otherwise.
run_gated() {
    local code=0
    rm -rf "$soak_work/gate"
    mkfifo "$soak_work/gate"
    # For both ways, because opening for one waits for the other.
    exec 8<>"$soak_work/gate"
    gate=$soak_work/gate
    start_tasks
    wait_until 30000 all_joined || code=1
    exec 8>&-
    gate=
    ((code == 0)) || { wrong "not all senders of a warm-up join"; return 1; }
    finish_tasks
}

# Every task of the round has all its senders. All have the same receiver, and as many.
all_joined() {
    soak_lab exec "${plan[1.to]}" -- askctl tasks --json |
        jq -e --argjson tasks "$plan_tasks" --argjson senders "${plan[1.senders]}" \
            'map(select((.senders_joined | length) == $senders)) | length == $tasks' >/dev/null
}

# launch WHO NODE COMMAND... : in the background, a task's process.
launch() {
    local -r who=$1 node=$2
    shift 2
    "$ASK_ROOT/tools/lab" exec --name "$soak_lab" "$node" -- env --default-signal=INT "$@" \
        <"${input:-/dev/null}" >"$soak_work/round/$who.out" 2>"$soak_work/round/$who.err" 8>&- &
    soak_pid[$who]=$!
}

sleep_ms() {
    sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"
}

# paused FILE PERCENT MS: the file, with a pause after so much of it.
paused() {
    local -r lines=$(($(wc -l <"$1") * $2 / 100))
    head -n "$lines" "$1"
    sleep_ms "$3"
    tail -n "+$((lines + 1))" "$1"
}

# input_of TASK SENDER WHO: sets $input to what its sender reads, and $files to the names of that.
input_of() {
    local -r in=$soak_work/round/task$1/in$2.tsv
    local sender percent pause
    read -r sender percent pause <<<"${plan[$1.pause]-}"
    input=${gate:-/dev/null} files=("$in" -)
    [[ $sender == "$2" ]] || return 0
    input=$soak_work/round/$3.pipe files=(-)
    mkfifo "$input"
    paused "$in" "$percent" "$pause" >"$input" 8>&- &
    feeders+=($!)
}

# One whose reader was killed before it opened its end waits for ever.
end_feeders() {
    local pid
    for pid in $(jobs -pr); do [[ " ${feeders[*]} " != *" $pid "* ]] || kill "$pid" 2>/dev/null || true; done
    feeders=()
}

# start_receiver TASK: another one, if there has been one.
start_receiver() {
    local -r task=$1 who=$1.recv$((++launched))
    local -a recv placement=()
    local input
    ((!soak_relays)) || place "$task"
    read -ra recv <<<"${plan[$task.recv]}"
    [[ -z ${plan[$task.output]-} ]] || ln -s "${plan[$task.output]}" "$soak_work/round/$who.out"
    current[$task.recv]=$who
    takers[$task]+=${takers[$task]:+ }$who
    launch "$who" "${plan[$task.to]}" ask-recv --task "${plan[$task.id]}" --senders "${plan[$task.senders]}" \
        --stats "$soak_work/round/$who.json" "${recv[@]}" "${placement[@]}"
}

# take_again TASK: what its receivers may have left.
take_again() {
    local -r task=$1 who=$1.again$((++launched))
    local input
    takers[$task]+=" $who"
    launch "$who" "${plan[$task.to]}" ask-recv --task "${plan[$task.id]}" --again --stats "$soak_work/round/$who.json"
}

# start_sender TASK SENDER: another one of the same input, if there has been one.
start_sender() {
    local -r task=$1 who=$1.send$2.$((++launched))
    local -a from send files
    local input
    read -ra from <<<"${plan[$task.from]}"
    read -ra send <<<"${plan[$task.send]}"
    input_of "$task" "$2" "$who"
    current[$task.send$2]=$who
    sends[$task]+=${sends[$task]:+ }$who
    launch "$who" "${from[$(($2 - 1))]}" ask-send --task "${plan[$task.id]}" --to "${plan[$task.to]}" "${send[@]}" "${files[@]}"
}

start_task() {
    local -r task=$1
    local -r dir=$soak_work/round/task$task
    local -a shape
    local i
    if [[ -n ${plan[$task.group]-} ]]; then
        start_group "$task"
        return
    fi
    read -ra shape <<<"${plan[$task.shape]}"
    mkdir -p "$dir"
    "$ASK_BUILD_DIR/tests/ask-e2e-gen" --out "$dir" --senders "${plan[$task.senders]}" "${shape[@]}"
    start_receiver "$task"
    for ((i = 1; i <= plan[$task.senders]; i++)); do start_sender "$task" "$i"; done
    counts[tuples]=$((counts[tuples] + $(cat "$dir"/in*.tsv | wc -l)))
}

# reap WHO: one that has ended. What a receiver has not taken is taken again, which can be one's second or third process.
reap() {
    local -r who=$1 task=${1%%.*}
    local code=0
    wait "${soak_pid[$who]}" 2>/dev/null || code=$?
    soak_end[$who]=$code
    end_ms[$task]=$(now_ms)
    unset "soak_pid[$who]"
    [[ $who != *.recv* || $code == 0 || $code == 20 || ${plan[$task.again]-} == late ]] || take_again "$task"
}

reap_ended() {
    local who
    for who in "${!soak_pid[@]}"; do alive "$who" || reap "$who"; done
}

# Waits for all processes of the round; sets soak_end.
await_tasks() {
    local -r deadline=$((SECONDS + ROUND_SECONDS))
    until reap_ended && ((${#soak_pid[@]} == 0)); do
        ((SECONDS < deadline)) || { wrong "after $ROUND_SECONDS s there still runs ${!soak_pid[*]}"; return 1; }
        sleep 0.02
    done
}

# kept TASK: its receiver's host still has its result.
kept() {
    soak_lab exec "${plan[$1.to]}" -- askctl tasks --json |
        jq -e --arg id "${plan[$1.id]}" 'any(.[]; .id == $id and (.state | startswith("kept until ")))' >/dev/null
}

# What nobody has taken yet: an agent would keep it for an hour.
take_the_rest() {
    local task
    for ((task = 1; task <= plan_tasks; task++)); do
        [[ -z ${plan[$task.group]-} ]] || continue
        [[ ${takers[$task]} == *" "* || ${soak_end[${takers[$task]}]} != 0 ]] || continue
        while kept "$task"; do
            take_again "$task"
            await_tasks || return
            [[ ${soak_end[${takers[$task]##* }]} =~ ^(0|20)$ ]] || { wrong "a kept result cannot be taken: $(complaint "${takers[$task]##* }")"; return 1; }
        done
    done
}

start_tasks() {
    local task
    rm -rf "$soak_work/round"
    mkdir "$soak_work/round"
    declare -p plan plan_faults plan_events >"$soak_work/round/plan"
    round_began=$(now_ms) events_end=$round_began
    hurt=() stalled=() end_ms=() soak_end=() soak_pid=() current=() takers=() sends=() launched=0
    for ((task = 1; task <= plan_tasks; task++)); do start_task "$task"; done
}

# Waits for the tasks and judges them.
finish_tasks() {
    local task
    await_tasks || return
    end_feeders
    soak_lab chaos clear
    wait_idle || return
    take_the_rest || return
    for ((task = 1; task <= plan_tasks; task++)); do judge "$task" || return; done
}

node_idle() {
    soak_lab exec "$1" -- askctl tasks --json 2>/dev/null |
        jq -e 'all(.[]; .state == "committed" or .state == "failed" or (.state | startswith("kept until ")))' >/dev/null &&
        soak_lab exec "$1" -- askctl groups --json 2>/dev/null | jq -e '.groups == []' >/dev/null
}

wait_idle() {
    local -a hosts=()
    local i node
    for ((i = 1; i <= SOAK_HOSTS; i++)); do hosts+=("h$i"); done
    for node in "${soak_switches[@]}" "${hosts[@]}" "${soak_relay_hosts[@]}"; do
        wait_until 30000 node_idle "$node" || { wrong "tasks stay on $node: $(soak_lab exec "$node" -- askctl tasks | tail -n +2 | head -n 3)"; return 1; }
    done
    relays_idle
}

no_pins() {
    local switch dir
    for switch in "${soak_switches[@]}"; do
        dir=$soak_lab_dir/bpf/$switch/ask/tasks
        wait_until 10000 dir_empty "$dir" || { wrong "pins of tasks stay on $switch: $(ls "$dir")"; return 1; }
    done
}

dir_empty() {
    [[ -z $(ls -A "$1") ]]
}

# How many threads, event descriptors and connections gRPC keeps shows only after some rounds. What a task leaves behind
# every time shows in those that follow.
nothing_left() {
    local -r said=$soak_work/round/leaks
    local -r of_grpc='thread|descriptor \[event(fd|poll)\]|descriptor socket|connections beyond one'
    if ((lab_round <= SETTLING_ROUNDS)); then
        leak_check compare "$soak_lab" "$soak_work/snapshot" 1 2>"$said" && return
        if ! tail -n +2 "$said" | grep -vE "$of_grpc" >/dev/null; then
            leak_check snapshot "$soak_lab" "$soak_work/snapshot" && return
        fi
    fi
    leak_check compare "$soak_lab" "$soak_work/snapshot" "$LEAK_SECONDS" 2>"$said" && return
    wrong "$(tr '\n' ' ' <"$said")"
}

run_round() {
    local -r began=$(now_ms)
    local rule
    local -a words
    lab_round=$((lab_round + 1))
    soak_summary="$plan_tasks tasks, ${#plan_faults[@]} rules of faults, events: ${plan_events[*]:-none}"
    soak_lab chaos clear || { wrong "the faults could not be cleared"; return 1; }
    for rule in "${plan_faults[@]}"; do
        read -ra words <<<"$rule"
        soak_lab chaos set "${words[@]}" || { wrong "chaos set $rule was refused"; return 1; }
    done
    start_tasks
    run_events || return
    events_end=$(now_ms)
    finish_tasks || return
    no_pins || return
    ((soak_relays || lab_round % LEAK_ROUNDS != 0)) || nothing_left || return
    soak_summary+=" ($(($(now_ms) - began)) ms)"
}
