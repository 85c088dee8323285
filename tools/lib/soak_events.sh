# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What soak_plan.sh has drawn to happen in the middle of a round, and which tasks that may hurt: those, and no others, may
# end with an error for it. Used by soak_run.sh, whose variables these are.
# shellcheck disable=SC2004,SC2034,SC2154 # indices are those of associative arrays

# Of a standstill that long less than the deadline a task must not end.
readonly STALL_SLACK_MS=3000

# The shell knows which of its processes run. By number alone it may be another that has come since.
alive() {
    [[ -n ${soak_pid[$1]-} && $'\n'$(jobs -pr)$'\n' == *$'\n'"${soak_pid[$1]}"$'\n'* ]]
}

anyone_alive() {
    local who
    for who in "${!soak_pid[@]}"; do ! alive "$who" || return 0; done
    return 1
}

# tasks_of NODE: those with a part there.
tasks_of() {
    local task
    for ((task = 1; task <= plan_tasks; task++)); do
        [[ " ${soak_switches[*]} " != *" $1 "* && " ${plan[$task.to]} ${plan[$task.from]} " != *" $1 "* ]] || printf '%s\n' "$task"
    done
}

# hurts_node NODE: whatever runs there may have ended by it.
hurts_node() {
    local task
    for task in $(tasks_of "$1"); do hurt[$task]=1; done
}

# stalls NODE MS: tasks there stand still, which may be too long together with what came before.
stalls() {
    local task
    for task in $(tasks_of "$1"); do
        stalled[$task]=$((${stalled[$task]-0} + $2))
        ((stalled[$task] + STALL_SLACK_MS < 1000 * plan[$task.deadline])) || hurt[$task]=1
    done
}

# down_and_up NODE MS: its daemon is killed, and started again so much later.
down_and_up() {
    soak_lab kill "$1" -KILL 2>/dev/null || return 0
    sleep_ms "$2"
    start_again "$1"
}

# forget_and_up SWITCH MS: as a reboot does: daemon, programs, links and maps are gone.
forget_and_up() {
    soak_lab kill "$1" -KILL 2>/dev/null || return 0
    soak_lab exec "$1" -- ask-switchd --config "$soak_lab_dir/conf/$1.toml" --unload >/dev/null 2>&1 || wrong "the switch $1 cannot be unloaded" || return
    sleep_ms "$2"
    start_again "$1"
}

start_again() {
    soak_lab restart "$1" >>"$soak_work/round/restart.log" 2>&1 ||
        wrong "the daemon of $1 does not start: $(tail -n 3 "$soak_work/round/restart.log")"
}

# stop NODE MS: so long, until the event that lets it go on.
stop() {
    soak_lab kill "$1" -STOP 2>/dev/null || return 0
    stalls "$1" "$2"
}

# Of a daemon that was killed meanwhile there is nothing to go on.
go_on() {
    soak_lab kill "$1" -CONT 2>/dev/null || true
}

# link HOST END up|down: at the switch's end of the host's link, in the middle (the host loses its carrier), or at its own.
link() {
    case $2 in
        switch) soak_lab exec sw -- ip link set dev "p${1#h}" "$3" ;;
        middle) nsenter --net="/run/netns/ask-$soak_lab-chaos" -- ip link set dev "$1" "$3" ;;
        host) soak_lab exec "$1" -- ip link set dev eth0 "$3" ;;
    esac || { wrong "the link of $1 cannot be set $3 ($2)"; return 1; }
    # With its address's interface the route has gone.
    [[ $2 != host || $3 != up ]] || soak_lab exec "$1" -- ip route replace default via "198.18.${1#h}.1"
}

# quit WHO SIGNAL: a task's process is told to end, and may have been about to.
quit() {
    alive "$1" || return 0
    hurt[${1%%.*}]=1
    kill "-$2" "${soak_pid[$1]}" 2>/dev/null || true
}

# ended WHO... : none of them runs any more.
ended() {
    local who
    for who; do ! alive "$who" || return 1; done
}

# begin_again TASK WHICH SIGNAL: its receiver, its sender, or all of them end, and begin anew under the same id at once.
begin_again() {
    local -r task=$1 which=$2
    local -a old=("${current[$1.recv]}")
    local -i i
    local who
    alive "${old[0]}" || return 0
    case $which in
        sender) old=("${current[$task.send1]}") ;;
        all) for ((i = 1; i <= plan[$task.senders]; i++)); do old+=("${current[$task.send$i]}"); done ;;
    esac
    for who in "${old[@]}"; do quit "$who" "$3"; done
    # One whose agent is stopped may not end before that goes on.
    wait_until 3000 ended "${old[@]}" || return 0
    [[ $which == sender ]] || start_receiver "$task"
    [[ $which != sender ]] || start_sender "$task" 1
    [[ $which != all ]] || for ((i = 1; i <= plan[$task.senders]; i++)); do start_sender "$task" "$i"; done
}

# cancel TASK: as its user would.
cancel() {
    hurt[$1]=1
    timeout 5 "$ASK_ROOT/tools/lab" exec --name "$soak_lab" "${plan[$1.to]}" -- askctl task cancel "${plan[$1.id]}" >/dev/null 2>&1 || true
}

# look TASK NODE COMMAND: whatever it says, it changes nothing. A daemon that is stopped does not answer.
look() {
    local -a command=("$3")
    local code=0
    [[ $3 != explain && $3 != dump ]] || command=(task "$3" "${plan[$1.id]}")
    timeout 5 "$ASK_ROOT/tools/lab" exec --name "$soak_lab" "$2" -- askctl "${command[@]}" --json >"$soak_work/round/look.out" 2>&1 || code=$?
    ((code < 128)) || wrong "askctl ${command[*]} on $2 ended with $code: $(tail -n 2 "$soak_work/round/look.out")"
}

# event KIND ARGUMENT...
event() {
    counts[${1//-/_}]=$((${counts[${1//-/_}]-0} + 1))
    case $1 in
        switch-kill) down_and_up "$2" "$3" ;;
        switch-restart) go_on "$2" && start_again "$2" ;;
        switch-stop) stop "$2" "$3" ;;
        switch-forgets) forget_and_up "$2" "$3" ;;
        agent-kill) hurts_node "$2" && down_and_up "$2" "$3" ;;
        agent-restart) hurts_node "$2" && go_on "$2" && start_again "$2" ;;
        agent-stop) stop "$2" "$3" ;;
        reload) soak_lab kill "$2" -HUP 2>/dev/null || true ;;
        link-down) stalls "$2" "$4" && link "$2" "$3" down ;;
        sender-quits) quit "${current[$2.send$3]}" "$4" ;;
        receiver-quits) quit "${current[$2.recv]}" "$3" ;;
        begin-again) begin_again "$2" "$3" "$4" ;;
        cancel) cancel "$2" ;;
        look) look "$2" "$3" "$4" ;;
        faults-end) soak_lab chaos clear || wrong "the faults could not be cleared" ;;
        relay-* | link-cut) relays_event "$@" ;;
        *) group_event "$@" ;;
    esac
}

# undo KIND ARGUMENT... : the end of an event that lasts.
undo() {
    case $1 in
        switch-stop) go_on "$2" ;;
        agent-stop) go_on "$2" ;;
        link-down) link "$2" "$3" up ;;
        relay-* | link-cut) relays_undo "$@" ;;
        *) group_undo "$@" ;;
    esac
}

# Events at their times; they are drawn, and what tasks have done by then is chance. Once there is nobody left they are
# left out, and what lasts ends at once.
run_events() {
    local -r began=$(now_ms)
    local entry at
    for entry in "${plan_events[@]}"; do
        at=${entry%% *} entry=${entry#* }
        # What a receiver has not taken is taken again meanwhile.
        until reap_ended && (($(now_ms) >= began + at)) || ! anyone_alive; do sleep 0.02; done
        # shellcheck disable=SC2086 # kind and arguments
        if [[ $entry == undo\ * ]]; then
            $entry || return
        elif anyone_alive; then
            event $entry || return
        fi
    done
}
