# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Groups in place of tasks: what a round of `tools/soak --groups` draws, starts and judges. Each is one of the plan's tasks
# to all else: its root is what a receiver is, its other members are its senders. A member (ask-e2e-survivor) holds every
# result against what it computes itself, and goes on with the others when one dies.
# Used by soak_run.sh, whose variables these are, and tools/soak.
# shellcheck disable=SC2004,SC2034,SC2154 # indices are those of associative arrays

# What a member may take that has had no event any more: so many times the deadline it may wait for others, as often as the
# group may shrink, and settle each time.
readonly SETTLE_MS=14000

plan_group() {
    local -r group=$1
    local -a hosts=() left=()
    local -i size
    local host
    for ((host = 1; host <= SOAK_HOSTS; host++)); do left+=("h$host"); done
    draw $((SOAK_HOSTS - 1)) && size=$((REPLY + 2))
    for ((; size > 0; size--)); do
        draw ${#left[@]}
        hosts+=("${left[REPLY]}")
        left=("${left[@]:0:REPLY}" "${left[@]:REPLY+1}")
    done
    plan[$group.group]=1 plan[$group.id]=soak-group-$group plan[$group.hosts]=${hosts[*]}
    draw ${#hosts[@]} && plan[$group.to]=${hosts[REPLY]}
    plan[$group.from]=" ${hosts[*]} " && plan[$group.from]=${plan[$group.from]/ ${plan[$group.to]} / }
    plan[$group.senders]=${#hosts[@]} plan[$group.deadline]=15
    ((plan_loss >= 10000)) || chance 2 || plan[$group.deadline]=6
    draw 1000000 && plan[$group.seed]=$REPLY
    if ((plan_loss >= 10000)); then pick 5 20; else pick 30 100 300 1000; fi
    plan[$group.operations]=$REPLY
    if ((plan_loss >= 10000)); then pick 10 500; else pick 100 3000 30000; fi
    plan[$group.count]=$REPLY
}

# A member ends: "member-quits GROUP RANK SIGNAL".
plan_group_event() {
    local at kind lasts=0 group
    pick 600 2000 6000 && draw "$REPLY" && at=$REPLY
    pick switch-kill switch-kill switch-restart switch-stop switch-forgets agent-kill agent-stop agent-restart link-down reload \
        member-quits member-quits member-quits member-quits member-quits member-hangs group-look faults-end && kind=$REPLY
    draw "$plan_tasks" && group=$((REPLY + 1))
    case $kind in
        switch-kill | switch-forgets) pick 0 300 1500 && kind+=" sw $REPLY" ;;
        member-quits)
            kind+=" $group" && draw "${plan[$group.senders]}" && kind+=" $REPLY"
            pick KILL KILL INT && kind+=" $REPLY"
            ;;
        member-hangs)
            kind+=" $group" && draw "${plan[$group.senders]}" && kind+=" $REPLY"
            pick_standstill && lasts=$REPLY && kind+=" $REPLY"
            ;;
        group-look)
            draw_host && pick sw "$REPLY" && kind+=" $group $REPLY"
            pick list one explain && kind+=" $REPLY"
            ;;
        *) plan_common_event ;;
    esac
    plan_note_event
}

plan_groups_round() {
    local group i
    seed_draws "$1"
    plan=() plan_faults=() plan_events=() plan_loss=0
    draw 2 && plan_tasks=$((REPLY + 1))
    draw 3
    for ((i = REPLY; i > 0; i--)); do plan_fault; done
    for ((group = 1; group <= plan_tasks; group++)); do plan_group "$group"; done
    pick 0 1 1 2 3 5
    for ((i = REPLY; i > 0; i--)); do plan_group_event; done
    mapfile -t plan_events < <(printf '%s\n' "${plan_events[@]}" | sed '/^$/d' | sort -n)
}

start_group() {
    local -r group=$1
    local -a hosts
    local -i rank
    local who input
    read -ra hosts <<<"${plan[$group.hosts]}"
    for ((rank = 0; rank < ${#hosts[@]}; rank++)); do
        who=$group.member$rank.$((++launched))
        current[$group.member$rank]=$who
        launch "$who" "${hosts[rank]}" "$ASK_BUILD_DIR/tests/ask-e2e-survivor" --group "${plan[$group.id]}" --rank "$rank" \
            --size "${#hosts[@]}" --root "${plan[$group.to]}" --seed "${plan[$group.seed]}" \
            --operations "${plan[$group.operations]}" --count "${plan[$group.count]}" --deadline "${plan[$group.deadline]}" \
            --arena 16
    done
}

# member_of GROUP RANK: sets $who to its process, if it runs.
member_of() {
    who=${current[$1.member$2]-}
    alive "$who"
}

# group_event KIND ARGUMENT... : those that tasks do not have.
group_event() {
    local who
    case $1 in
        member-quits) ! member_of "$2" "$3" || quit "$who" "$4" ;;
        member-hangs)
            member_of "$2" "$3" || return 0
            hurt[$2]=1
            kill -STOP "${soak_pid[$who]}" 2>/dev/null || true
            ;;
        group-look) look_at_group "$2" "$3" "$4" ;;
    esac
}

group_undo() {
    local who
    [[ $1 != member-hangs ]] || ! member_of "$2" "$3" || kill -CONT "${soak_pid[$who]}" 2>/dev/null || true
}

# look_at_group GROUP NODE WHAT: whatever it says, it changes nothing.
look_at_group() {
    local -a command=(groups)
    local code=0
    [[ $3 != one ]] || command=(groups "${plan[$1.id]}")
    [[ $3 != explain ]] || command=(group explain "${plan[$1.id]}")
    timeout 5 "$ASK_ROOT/tools/lab" exec --name "$soak_lab" "$2" -- askctl "${command[@]}" --json >"$soak_work/round/look.out" 2>&1 || code=$?
    ((code < 128)) || wrong "askctl ${command[*]} on $2 ended with $code: $(tail -n 2 "$soak_work/round/look.out")"
}

# The members that one which ended well has ended with, "0,2,3".
members_left() {
    tail -n 1 "$soak_work/round/$1.out" | sed -n 's/^done [0-9]* //p'
}

# judge_member GROUP RANK WHO: one that ended well names itself among those that are left; another says why not.
judge_member() {
    local -r group=$1 rank=$2 who=$3
    local left
    case ${soak_end[$who]} in
        0)
            left=$(members_left "$who")
            [[ ,$left, == *,$rank,* ]] || { wrong "a member of ${plan[$group.id]} that ended well has '$left' left, not itself: $(complaint "$who")"; return 1; }
            ;;
        99) wrong "WRONG ANSWER of group ${plan[$group.id]}: $(complaint "$who")" || return ;;
        *)
            names_who "$soak_work/round/$who.err" || ((${hurt[$group]-0} && soak_end[$who] > 128)) || grep -q 'agent' "$soak_work/round/$who.err" ||
                { wrong "an error that names nobody: $(complaint "$who")"; return 1; }
            ;;
    esac
}

# judge_group GROUP: all that ended well have the same members left, and each of these has ended well unless something was
# done to it.
judge_group() {
    local -r group=$1
    local -i rank well=0 size=${plan[$1.senders]}
    local who left='' one
    counts[groups]=$((${counts[groups]-0} + 1))
    for ((rank = 0; rank < size; rank++)); do
        who=${current[$group.member$rank]}
        judge_member "$group" "$rank" "$who" || return
        ((soak_end[$who] == 0)) || continue
        well=$((well + 1))
        one=$(members_left "$who")
        [[ -z $left || $left == "$one" ]] || { wrong "members of ${plan[$group.id]} ended well with $left and with $one left"; return 1; }
        left=$one
    done
    in_time_group "$group" || return
    if ((well == size)); then
        counts[whole]=$((${counts[whole]-0} + 1))
    elif ((well > 0)); then
        counts[shrunk]=$((${counts[shrunk]-0} + 1))
    else
        counts[failed]=$((${counts[failed]-0} + 1))
    fi
    ((well == size || ${hurt[$group]-0})) || {
        counts[unaimed]=$((counts[unaimed] + 1))
        soak_summary+="; ${plan[$group.id]}: $(complaint "${current[$group.member0]}")"
    }
}

in_time_group() {
    local -r took=$((end_ms[$1] - events_end))
    local -r most=$((plan[$1.senders] * (2000 * plan[$1.deadline] + SETTLE_MS) + BUSY_MS))
    ((took <= most)) || wrong "group ${plan[$1.id]} ended $took ms after all was done to it, with a deadline of ${plan[$1.deadline]} s"
}

groups_text() {
    local name
    printf '%s groups: %s whole, %s went on with fewer, %s failed by name, %s of all that nobody aimed at were not whole; events: ' \
        "${counts[groups]-0}" "${counts[whole]-0}" "${counts[shrunk]-0}" "${counts[failed]-0}" "${counts[unaimed]}"
    for name in "${!counts[@]}"; do [[ $name != *_* ]] || printf '%s %s\n' "${name//_/-}" "${counts[$name]}"; done | sort | paste -sd, |
        sed 's/,/, /g'
}
