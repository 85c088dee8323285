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
soak_faults={}      # what the injectors have done so far, as JSON
declare -A soak_pid # TASK.recv, TASK.sendN: process
declare -A soak_end # the same: exit code
declare -A hurt     # TASK: an event was aimed at it
declare -A counts=([tasks]=0 [exact]=0 [errors]=0 [tuples]=0 [switch_kills]=0 [switch_restarts]=0 [sender_kills]=0
    [receiver_interrupts]=0)

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
    local who
    for who in "${!soak_pid[@]}"; do kill -KILL "${soak_pid[$who]}" 2>/dev/null || true; done
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
    printf '%s tasks, %s tuples: %s exact, %s errors by name; ask-switchd killed %s times, restarted %s; %s senders killed, %s receivers interrupted' \
        "${counts[tasks]}" "${counts[tuples]}" "${counts[exact]}" "${counts[errors]}" "${counts[switch_kills]}" \
        "${counts[switch_restarts]}" "${counts[sender_kills]}" "${counts[receiver_interrupts]}"
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
    soak_lab up --hosts "$SOAK_HOSTS" --chaos --queues "$plan_queues" --config-switch "$soak_work/switch.toml" --config-agent "$soak_work/agent.toml" \
        >"$soak_work/up.log" 2>&1 || { wrong "no lab: $(tail -n 5 "$soak_work/up.log")"; return 1; }
    for ((host = 1; host <= SOAK_HOSTS; host++)); do
        plan_warm_up "$1" "$host"
        run_gated || return
        wait_idle || return
    done
    leak_check snapshot "$soak_lab" "$soak_work/snapshot" || wrong "no snapshot of the lab"
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
        <"${gate:-/dev/null}" >"$soak_work/round/$who.out" 2>"$soak_work/round/$who.err" 8>&- &
    soak_pid[$who]=$!
}

start_task() {
    local -r task=$1
    local -r dir=$soak_work/round/task$task
    local -a from shape recv send
    local i
    read -ra from <<<"${plan[$task.from]}"
    read -ra shape <<<"${plan[$task.shape]}"
    read -ra recv <<<"${plan[$task.recv]}"
    read -ra send <<<"${plan[$task.send]}"
    mkdir -p "$dir"
    "$ASK_BUILD_DIR/tests/ask-e2e-gen" --out "$dir" --senders "${#from[@]}" "${shape[@]}"
    launch "$task.recv" "${plan[$task.to]}" ask-recv --task "${plan[$task.id]}" --senders "${#from[@]}" "${recv[@]}"
    for ((i = 1; i <= ${#from[@]}; i++)); do
        launch "$task.send$i" "${from[$((i - 1))]}" ask-send --task "${plan[$task.id]}" --to "${plan[$task.to]}" \
            "${send[@]}" "$dir/in$i.tsv" -
    done
    plan[$task.senders]=${#from[@]}
    counts[tuples]=$((counts[tuples] + $(cat "$dir"/in*.tsv | wc -l)))
}

alive() {
    [[ -n ${soak_pid[$1]-} ]] && ! grep -qs '^State:[[:space:]]*Z' "/proc/${soak_pid[$1]}/status" &&
        kill -0 "${soak_pid[$1]}" 2>/dev/null
}

# event KIND [ARGUMENT]
event() {
    case $1 in
        switch-kill)
            soak_lab kill sw -KILL 2>/dev/null || return 0
            counts[switch_kills]=$((counts[switch_kills] + 1))
            sleep "$(($2 / 1000)).$(printf '%03d' $(($2 % 1000)))"
            soak_lab restart sw >>"$soak_work/round/restart.log" 2>&1 || wrong "ask-switchd does not start: $(tail -n 3 "$soak_work/round/restart.log")"
            ;;
        switch-restart)
            counts[switch_restarts]=$((counts[switch_restarts] + 1))
            soak_lab restart sw >>"$soak_work/round/restart.log" 2>&1 || wrong "ask-switchd does not start again: $(tail -n 3 "$soak_work/round/restart.log")"
            ;;
        sender-kill)
            alive "$2.send1" || return 0
            hurt[$2]=1
            counts[sender_kills]=$((counts[sender_kills] + 1))
            kill -KILL "${soak_pid[$2.send1]}" 2>/dev/null || true
            ;;
        receiver-int)
            alive "$2.recv" || return 0
            hurt[$2]=1
            counts[receiver_interrupts]=$((counts[receiver_interrupts] + 1))
            kill -INT "${soak_pid[$2.recv]}" 2>/dev/null || true
            ;;
        faults) soak_lab chaos clear || wrong "the faults could not be cleared" ;;
    esac
}

# Events at their times; they are drawn, and what tasks have done by then is chance.
run_events() {
    local -r began=$(now_ms)
    local entry at wait
    for entry in "${plan_events[@]}"; do
        at=${entry%% *}
        wait=$((began + at - $(now_ms)))
        ((wait <= 0)) || sleep "$(printf '%d.%03d' $((wait / 1000)) $((wait % 1000)))"
        # shellcheck disable=SC2086 # kind and argument
        event ${entry#* } || return
    done
}

# Waits for all processes of the round; sets soak_end.
await_tasks() {
    local -r deadline=$((SECONDS + ROUND_SECONDS))
    local who code
    for who in "${!soak_pid[@]}"; do
        while alive "$who"; do
            ((SECONDS < deadline)) || { wrong "$who of task ${plan[${who%%.*}.id]} still runs after $ROUND_SECONDS s"; return 1; }
            sleep 0.02
        done
        code=0
        wait "${soak_pid[$who]}" 2>/dev/null || code=$?
        soak_end[$who]=$code
    done
    soak_pid=()
}

# A message that names somebody: a host, an address, or the switch; or how many senders never joined: a receiver does
# not know who they would have been.
names_who() {
    grep -qE '\bh[1-9]\b|198\.18\.[0-9]+|switch|interrupted|[0-9]+ of [0-9]+ senders joined' "$1"
}

# The words for a sender or receiver that ended with an error.
complaint() {
    printf '%s (exit code %s): %s' "$1" "${soak_end[$1]}" "$(tail -n 2 "$soak_work/round/$1.err" | cut -c 1-300)"
}

judge_success() {
    local -r task=$1
    local -r dir=$soak_work/round/task$task
    local i
    cmp -s "$soak_work/round/$task.recv.out" "$dir/expected.tsv" || {
        wrong "WRONG ANSWER of task ${plan[$task.id]}: $(diff "$soak_work/round/$task.recv.out" "$dir/expected.tsv" | head -n 4 | cut -c 1-100 | tr '\n' ' ')"
        return
    }
    for ((i = 1; i <= plan[$task.senders]; i++)); do
        ((soak_end[$task.send$i] == 0 || ${hurt[$task]-0})) ||
            { wrong "task ${plan[$task.id]} has its result, but $(complaint "$task.send$i")"; return 1; }
    done
    counts[exact]=$((counts[exact] + 1))
}

judge_error() {
    local -r task=$1
    local i
    [[ ! -s $soak_work/round/$task.recv.out ]] || { wrong "task ${plan[$task.id]} failed and yet printed a result"; return 1; }
    # A receiver that was interrupted before it could say so has said all with its exit code.
    names_who "$soak_work/round/$task.recv.err" || ((${hurt[$task]-0} && soak_end[$task.recv] == 130)) || { wrong "an error that names nobody: $(complaint "$task.recv")"; return 1; }
    for ((i = 1; i <= plan[$task.senders]; i++)); do
        ((soak_end[$task.send$i] != 0)) || { wrong "a send succeeded, but $(complaint "$task.recv")"; return 1; }
    done
    ((${hurt[$task]-0})) || soak_summary+="; ${plan[$task.id]}: $(complaint "$task.recv")"
    counts[errors]=$((counts[errors] + 1))
}

start_tasks() {
    local task
    rm -rf "$soak_work/round"
    mkdir "$soak_work/round"
    declare -p plan plan_faults plan_events >"$soak_work/round/plan"
    hurt=() soak_end=() soak_pid=()
    for ((task = 1; task <= plan_tasks; task++)); do start_task "$task"; done
}

# Waits for the tasks and judges them.
finish_tasks() {
    local task
    await_tasks || return
    for ((task = 1; task <= plan_tasks; task++)); do
        counts[tasks]=$((counts[tasks] + 1))
        if ((soak_end[$task.recv] == 0)); then
            judge_success "$task" || return
        else
            judge_error "$task" || return
        fi
    done
}

node_idle() {
    soak_lab exec "$1" -- askctl tasks --json 2>/dev/null |
        jq -e 'all(.[]; .state == "committed" or .state == "failed" or (.state | startswith("kept until ")))' >/dev/null
}

wait_idle() {
    local i
    wait_until 30000 node_idle sw || { wrong "tasks stay on the switch: $(soak_lab exec sw -- askctl tasks | tail -n +2 | head -n 3)"; return 1; }
    for ((i = 1; i <= SOAK_HOSTS; i++)); do
        wait_until 30000 node_idle "h$i" || { wrong "tasks stay on h$i: $(soak_lab exec "h$i" -- askctl tasks | tail -n +2 | head -n 3)"; return 1; }
    done
}

no_pins() {
    local -r dir=$soak_lab_dir/bpf/sw/ask/tasks
    wait_until 10000 dir_empty "$dir" || { wrong "pins of tasks stay: $(ls "$dir")"; return 1; }
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
    finish_tasks || return
    soak_lab chaos clear
    wait_idle || return
    no_pins || return
    ((lab_round % LEAK_ROUNDS != 0)) || nothing_left || return
    soak_summary+=" ($(($(now_ms) - began)) ms)"
}
