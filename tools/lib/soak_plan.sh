# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What a round of the soak does: everything that is drawn, drawn before it begins, from seed and round alone. No draw
# may be made in a subshell, which would not move the generator on.
# Used by soak_run.sh and tools/soak; the seed is theirs.
# shellcheck disable=SC2034,SC2154

# The lab is made anew after so many rounds.
readonly SOAK_LAB_ROUNDS=20
readonly SOAK_HOSTS=4
# So many senders of a task sit on one host at most.
readonly SOAK_TWINS=2

soak_relays=0          # whether tasks have them
soak_switches=(sw)     # of the lab
soak_relay_hosts=()    # of the lab's relays, if it has any
soak_links=(1 2 3 4)   # numbers of its links

# A round's plan.
plan_tasks=0
plan_faults=()  # of each `chaos set`, its arguments
plan_events=()  # "MILLISECONDS [undo] KIND [ARGUMENT...]", by time
plan_loss=0     # worst of all rules, in thousandths of a percent
plan_queues=1
declare -A plan # TASK.FIELD

# seed_draws NUMBER: the generator starts again, for a round or a lab.
seed_draws() {
    RANDOM=$(((soak_seed * 2654435761 + $1 * 40503 + (soak_seed >> 16)) & 0x7fffffff))
}

# draw N: sets REPLY to one of 0 ... N-1.
draw() {
    REPLY=$(((RANDOM << 15 | RANDOM) % $1))
}

# pick WORD... : sets REPLY to one of them.
pick() {
    draw $#
    shift "$REPLY"
    REPLY=$1
}

# chance N: one in N.
chance() {
    draw "$1"
    ((REPLY == 0))
}

# The most that the worst link lets through in the time of a round.
plan_size() {
    if ((plan_loss >= 30000)); then
        pick 10 50 150
    elif ((plan_loss >= 10000)); then
        pick 10 100 1000
    else
        pick 10 1000 10000 30000 100000
    fi
}

plan_inputs() {
    local -r task=$1
    local -a shape=()
    draw 1000000 && shape+=(--seed "$REPLY")
    plan_size && shape+=(--tuples "$REPLY")
    pick 5 50 500 5000 20000 && shape+=(--keys "$REPLY")
    pick mixed mixed short whole whole && shape+=(--key-form "$REPLY")
    pick mixed small one wide edge && shape+=(--values "$REPLY")
    pick sum sum min max count
    plan[$task.op]=$REPLY
    if [[ $REPLY == count ]]; then shape+=(--count-lines); else shape+=(--op "$REPLY"); fi
    plan[$task.shape]=${shape[*]}
}

# A short one only where what faults do to packets does not take as long.
plan_deadline() {
    plan[$1.deadline]=30
    ((plan_loss >= 10000)) || chance 3 || plan[$1.deadline]=8
}

plan_receiver() {
    local -r task=$1
    local -a flags=(--op "${plan[$task.op]}" --deadline "${plan[$task.deadline]}")
    if chance 12; then
        plan[$task.recv]="${flags[*]} --no-switch"
        return
    fi
    pick 8 32 32 512 8192 && flags+=(--aggregators "$REPLY")
    pick auto first-come replace && flags+=(--policy "$REPLY")
    pick off off off off auto tuples=100 packets=10 every=3 every=100,tuples=1000 && flags+=(--swap "$REPLY")
    pick "" "" auto 16+8x2*1 16+8x2*2 8+7x3 14+10x3 32*1 4+4x4*3
    [[ -z $REPLY ]] || flags+=(--geometry "$REPLY")
    # A task that swaps has no back level anyway.
    ! chance 6 || flags+=(--no-back)
    plan[$task.recv]=${flags[*]}
}

# places RECEIVER: sets $places to where its senders may sit, a host as often as it may have one: on hosts other than the
# receiver's, one a host; or anywhere, the receiver's own host too.
plan_places() {
    local host twin
    local -i twins=1
    places=()
    ! chance 2 || twins=SOAK_TWINS
    for ((host = 1; host <= SOAK_HOSTS; host++)); do
        [[ $twins == 1 && h$host == "$1" ]] || for ((twin = 0; twin < twins; twin++)); do places+=("h$host"); done
    done
}

plan_senders() {
    local -r task=$1
    local -a places from=() flags=(--deadline "${plan[$task.deadline]}")
    local -i senders
    draw "$SOAK_HOSTS"
    plan[$task.to]=h$((REPLY + 1))
    plan_places "${plan[$task.to]}"
    draw $((SOAK_HOSTS < ${#places[@]} ? SOAK_HOSTS : ${#places[@]}))
    for ((senders = REPLY + 1; senders > 0; senders--)); do
        draw ${#places[@]}
        from+=("${places[REPLY]}")
        places=("${places[@]:0:REPLY}" "${places[@]:REPLY+1}")
    done
    plan[$task.from]=${from[*]} plan[$task.senders]=${#from[@]}
    pick 0 0 64 4096 && flags+=(--merge-window "$REPLY")
    [[ ${plan[$task.op]} != count ]] || flags+=(--count)
    plan[$task.send]=${flags[*]}
}

# One sender's input may come through a pipe that pauses: for longer than a lease too, or the deadline, since an idle
# input is no standstill.
plan_pause() {
    local -r task=$1
    local -a from
    local pause
    chance 2 || return 0
    read -ra from <<<"${plan[$task.from]}"
    draw ${#from[@]} && pause=$((REPLY + 1))
    pick 0 30 60 100 && pause+=" $REPLY"
    pick 300 2000 3000 6500 9500 && plan[$task.pause]="$pause $REPLY" # sender, percent before it, milliseconds
    # What it has kept of a pipe it can send again.
    ! chance 6 || plan[$task.send]+=" --spool 0"
}

plan_fault() {
    local -a rule=()
    local kinds
    pick all all "${soak_links[@]}" && rule+=(--link "$REPLY")
    pick both both up down && rule+=(--dir "$REPLY")
    draw 1000000 && rule+=(--seed "$REPLY")
    draw 31
    kinds=$((REPLY + 1))
    if ((kinds & 1)); then
        pick 100 1000 1000 3000 10000 30000
        # Of every link of a tree that many a way leave nothing.
        ((!soak_relays || REPLY <= 3000)) || REPLY=3000
        ((REPLY <= plan_loss)) || plan_loss=$REPLY
        rule+=(--loss "$((REPLY / 1000)).$(((REPLY % 1000) / 100))")
    fi
    if ((kinds & 2)); then
        pick 1 5 30 && rule+=(--dup "$REPLY")
        pick 0..1 0..50 0..2000 1000..5000 30000..120000 && rule+=(--dup-late "$REPLY")
    fi
    if ((kinds & 4)); then
        pick 1 10 30 && rule+=(--reorder "$REPLY")
        pick 0.1..1 1..20 5..100 && rule+=(--reorder-by "$REPLY")
    fi
    if ((kinds & 8)); then pick 0.5 2 5 && rule+=(--corrupt "$REPLY"); fi
    if ((kinds & 16)); then pick 0.1 0..1 0..10 && rule+=(--delay "$REPLY"); fi
    # TCP gives in to what ASK's packets bear.
    if ((plan_loss <= 3000)) && chance 6; then rule+=(--all-traffic); fi
    plan_faults+=("${rule[*]}")
}

# draw_host: sets REPLY to one that has a part in some task.
draw_host() {
    local -a hosts
    draw "$plan_tasks"
    read -ra hosts <<<"${plan[$((REPLY + 1)).to]} ${plan[$((REPLY + 1)).from]}"
    draw ${#hosts[@]}
    REPLY=${hosts[REPLY]}
}

# draw_switch: sets REPLY to one of the lab's, without a draw if that is the only one.
draw_switch() {
    REPLY=0
    ((${#soak_switches[@]} == 1)) || draw ${#soak_switches[@]}
    REPLY=${soak_switches[REPLY]}
}

# draw_sender TASK: sets REPLY to the number of one.
draw_sender() {
    draw "${plan[$1.senders]}"
    REPLY=$((REPLY + 1))
}

# For less than a lease and a short deadline, and for longer.
pick_standstill() {
    pick 200 1000 3000 9500
}

# What happens to a task: "KIND TASK ..." in $kind, of which KIND is there.
plan_task_event() {
    local task
    draw "$plan_tasks" && task=$((REPLY + 1))
    kind+=" $task"
    case $kind in
        sender-quits*) draw_sender "$task" && kind+=" $REPLY" ;;
        begin-again*)
            pick recv all && kind+=" $REPLY"
            # With another sender beside it, its second self could take that one's place.
            ((plan[$task.senders] > 1)) || kind=${kind/recv/sender}
            ;;
    esac
    pick KILL INT && kind+=" $REPLY"
}

# Somebody looks on, at the receiver of a task, its switch or a host of it: "look TASK NODE COMMAND" in $kind.
plan_look() {
    local task host
    draw "$plan_tasks" && task=$((REPLY + 1))
    draw_host && host=$REPLY && draw_switch && pick "$REPLY" "${plan[$task.to]}" "$host" && kind+=" $task $REPLY"
    pick status tasks counters explain dump && kind+=" $REPLY"
}

# Goes on with $kind, of those that soaks have in common: what befalls the switch's daemon, a host's, its link, or a task.
plan_common_event() {
    case $kind in
        switch-restart) kind+=" sw" ;;
        switch-stop) pick_standstill && lasts=$REPLY && kind+=" sw $REPLY" ;;
        agent-kill) draw_host && kind+=" $REPLY" && pick 0 300 1500 && kind+=" $REPLY" ;;
        agent-restart) draw_host && kind+=" $REPLY" ;;
        reload) draw_host && pick sw "$REPLY" && kind+=" $REPLY" ;;
        agent-stop) draw_host && kind+=" $REPLY" && pick_standstill && lasts=$REPLY && kind+=" $REPLY" ;;
        link-down)
            draw_host && kind+=" $REPLY" && pick switch middle host && kind+=" $REPLY"
            pick_standstill && lasts=$REPLY && kind+=" $REPLY"
            ;;
        sender-quits | receiver-quits | begin-again) plan_task_event ;;
        cancel) draw "$plan_tasks" && kind+=" $((REPLY + 1))" ;;
        look) plan_look ;;
    esac
}

# What was drawn, and what takes it back.
plan_note_event() {
    plan_events+=("$at $kind")
    ((lasts == 0)) || plan_events+=("$((at + lasts)) undo $kind")
}

plan_event() {
    local at kind lasts=0
    pick 600 600 4000 && draw "$REPLY" && at=$REPLY
    pick switch-kill switch-kill switch-kill switch-restart switch-stop agent-kill agent-restart agent-stop agent-stop \
        link-down link-down sender-quits sender-quits receiver-quits begin-again begin-again cancel reload look look \
        faults-end && kind=$REPLY
    case $kind in
        switch-kill) pick 0 50 300 1500 && kind+=" sw $REPLY" ;; # how long it is away
        *) plan_common_event ;;
    esac
    plan_note_event
}

# plan_incomplete TASK: one that goes on without senders that die, of which one does, half of the time. No two of its
# senders have a key in common, so that the result shows of whom all is there.
plan_incomplete() {
    local -r task=$1
    chance 5 || return 0
    plan[$task.incomplete]=1
    plan[$task.shape]+=" --apart"
    plan[$task.recv]="${plan[$task.recv]/--policy replace/--policy first-come} --allow-incomplete"
    chance 2 || return 0
    draw 1500 && plan_events+=("$REPLY sender-quits $task")
    draw_sender "$task" && plan_events[-1]+=" $REPLY"
    pick KILL INT && plan_events[-1]+=" $REPLY"
}

# plan_taking TASK: its receiver may be refused its output, and the result of one that did not take it is taken again: at
# once, or when its senders have given up.
plan_taking() {
    plan[$1.output]='' plan[$1.again]=at-once
    [[ -n ${plan[$1.incomplete]-} ]] || ! chance 8 || plan[$1.output]=/dev/full
    ! chance 4 || plan[$1.again]=late
}

plan_round() {
    local task i
    seed_draws "$1"
    plan=() plan_faults=() plan_events=() plan_loss=0
    draw 3 && plan_tasks=$((REPLY + 1))
    draw 4
    for ((i = REPLY; i > 0; i--)); do plan_fault; done
    for ((task = 1; task <= plan_tasks; task++)); do
        plan[$task.id]=soak-$1-$task
        plan_deadline "$task"
        plan_inputs "$task"
        plan_receiver "$task"
        plan_senders "$task"
        plan_pause "$task"
        ((soak_relays)) || plan_incomplete "$task"
        ((!soak_relays)) || plan_placed "$task"
        plan_taking "$task"
    done
    # Nothing, something, or everything at once.
    pick 0 0 1 1 2 3 4 9
    for ((i = REPLY; i > 0; i--)); do
        if ((soak_relays)); then plan_relays_event; else plan_event; fi
    done
    mapfile -t plan_events < <(printf '%s\n' "${plan_events[@]}" | sed '/^$/d' | sort -n)
}

# plan_warm_up NUMBER HOST: tasks received by that host, in the lab of that number. The first host's have as many senders
# as may be there at once, so that all channels have been made.
plan_warm_up() {
    local -r all=$(printf 'h%s ' $(seq "$SOAK_HOSTS"))
    local task
    plan=() plan_tasks=3 plan_faults=() plan_events=() plan_loss=0
    (($2 > 1)) || plan_tasks=4
    for ((task = 1; task <= plan_tasks; task++)); do
        plan[$task.id]=warm-$1-$2-$task plan[$task.to]=h$2 plan[$task.from]=$all
        (($2 > 1)) || plan[$task.from]+=$all
        plan[$task.senders]=$(wc -w <<<"${plan[$task.from]}") plan[$task.deadline]=30 plan[$task.output]=
        plan[$task.op]=sum plan[$task.recv]='' plan[$task.send]="--merge-window 0"
        plan[$task.shape]="--seed $task --tuples 300 --keys 100"
    done
}

# plan_lab NUMBER: sets plan_switch and plan_agents, lines of configuration, and plan_queues of every interface. With
# two, a channel's packets come to the switch on either CPU, which `compact` does not bear.
plan_lab() {
    seed_draws $((1000000007 + $1))
    plan_switch=() plan_agents=()
    pick 1 1 2 && plan_queues=$REPLY
    pick pipelines shared && plan_switch+=("memory = \"$REPLY\"")
    pick tagged tagged compact
    ((plan_queues == 1)) || REPLY=tagged
    plan_switch+=("dedupe = \"$REPLY\"")
    pick auto auto rcu && plan_switch+=("swap_barrier = \"$REPLY\"")
    # A MiB is soon full, and of a few each task's tables are another's soon.
    pick 64 64 4 1 && plan_switch+=("back_mib = $REPLY")
    chance 3 && plan_switch+=("quota_back_mib = 1")
    plan_switch+=("lease_seconds = 5")
    pick 256 256 64 8 && plan_agents+=("window = $REPLY")
    draw "$plan_queues" && plan_agents+=("workers = $((REPLY + 1))")
}
