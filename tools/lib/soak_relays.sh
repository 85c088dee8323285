# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Tasks on relays: what a lab and a round of `tools/soak --relays` have besides. A lab is a tree of switches, each with a relay of
# small memory, so that tables go up early and often, and tasks of several are refused some. Plans are those of ask-plan, or wild:
# any relays, each sending on to any other, for senders and receivers that may sit on relays' own hosts.
# Used by soak_run.sh, whose variables these are, and tools/soak.
# shellcheck disable=SC2004,SC2034,SC2154 # indices are those of associative arrays

# Each with hosts h1 to h4 at least.
readonly SOAK_TREES=('tree:2,3' 'tree:2,3' 'tree:3,2' 'tree:1,3,3' 'leaf-spine:4,2')
readonly -A SOAK_TREE_SWITCHES=([tree:2,3]=7 [tree:3,2]=4 [tree:1,3,3]=3 [leaf-spine:4,2]=6)
readonly -A SOAK_TREE_LINKS=([tree:2,3]=18 [tree:3,2]=11 [tree:1,3,3]=9 [leaf-spine:4,2]=18)

plan_tree=      # of the lab
plan_relayds=() # lines of configuration

# What a lab has besides, drawn after plan_lab.
plan_relays_lab() {
    local -i switches
    pick "${SOAK_TREES[@]}" && plan_tree=$REPLY
    switches=${SOAK_TREE_SWITCHES[$plan_tree]}
    mapfile -t soak_switches < <(printf 's%d\n' $(seq "$switches"))
    mapfile -t soak_relay_hosts < <(printf 'r%d\n' $(seq "$switches"))
    mapfile -t soak_links < <(seq "${SOAK_TREE_LINKS[$plan_tree]}")
    pick 2 2 2 3 64 && plan_relayds=("reserve_mib = $REPLY")
    # Room for one task, two, or all.
    pick 4096 4096 4 && plan_relayds+=("memory_mib = $REPLY")
    pick 64 64 2 && plan_relayds+=("max_relays = $REPLY" "quota_relays = $REPLY")
}

# A task's part in it: where it is placed, and for some an end of it on a relay's host.
plan_placed() {
    local -r task=$1
    local -a from
    read -ra from <<<"${plan[$task.from]}"
    if chance 5; then draw ${#soak_relay_hosts[@]} && plan[$task.to]=${soak_relay_hosts[REPLY]}; fi
    if chance 4; then
        draw ${#soak_relay_hosts[@]} && from[0]=${soak_relay_hosts[REPLY]}
        plan[$task.from]=${from[*]}
    fi
    plan[$task.recv]=${plan[$task.recv]/ --no-switch/}
    pick soar soar level top greedy wild wild wild none && plan[$task.strategy]=$REPLY
    pick 1 2 3 7 && plan[$task.k]=$REPLY
    draw 1000000000 && plan[$task.draws]=$REPLY
    plan_deadline_placed "$task"
}

# A relay that is gone costs half of it, and a task has three runs.
plan_deadline_placed() {
    plan[$1.recv]=${plan[$1.recv]/--deadline 8/--deadline 20} plan[$1.send]=${plan[$1.send]/--deadline 8/--deadline 20}
    ((plan[$1.deadline] > 8)) || plan[$1.deadline]=20
}

plan_relays_event() {
    local at kind lasts=0
    pick 600 2000 4000 && draw "$REPLY" && at=$REPLY
    pick relay-kill relay-kill relay-kill relay-stop relay-stop relay-restart relay-reload relay-agent-kill relay-agent-stop \
        switch-kill switch-forgets switch-stop agent-stop agent-kill link-cut link-cut sender-quits receiver-quits receiver-quits begin-again \
        cancel look faults-end && kind=$REPLY
    case $kind in
        relay-kill | relay-agent-kill) draw_relay && kind+=" $REPLY" && pick 0 300 1500 && kind+=" $REPLY" ;;
        relay-stop | relay-agent-stop) draw_relay && kind+=" $REPLY" && pick_standstill && lasts=$REPLY && kind+=" $REPLY" ;;
        relay-restart | relay-reload) draw_relay && kind+=" $REPLY" ;;
        switch-kill | switch-forgets) draw_switch && kind+=" $REPLY" && pick 0 300 1500 && kind+=" $REPLY" ;;
        switch-stop) draw_switch && kind+=" $REPLY" && pick_standstill && lasts=$REPLY && kind+=" $REPLY" ;;
        link-cut) draw ${#soak_links[@]} && kind+=" $REPLY" && pick_standstill && lasts=$REPLY && kind+=" $REPLY" ;;
        *) plan_common_event ;;
    esac
    plan_note_event
}

# draw_relay: sets REPLY to the host of one.
draw_relay() {
    draw ${#soak_relay_hosts[@]}
    REPLY=${soak_relay_hosts[REPLY]}
}

# Of each relay, as the lab's are drawn.
configure_relays() {
    local relay
    mkdir -p "$soak_work/round"
    for relay in "${soak_relay_hosts[@]}"; do
        printf '%s\n' "${plan_relayds[@]}" >>"$soak_lab_dir/conf/$relay.relayd.toml"
        start_again "$relay.relayd" || return
    done
    soak_lab status --json | jq .topology >"$soak_work/tree.json"
    soak_lab link --json | jq -r '.[] | "\(.from) \(.to)"' >"$soak_work/links"
}

# place TASK: writes its plan, if it has one, and sets $placement to what its receiver is told.
place() {
    local -r task=$1 dir=$soak_work/round/task$1
    placement=()
    case ${plan[$task.strategy]-none} in
        none) return 0 ;;
        wild) plan_wildly "$task" >"$dir/plan.json" ;;
        # A receiver that sends too is none of ask-plan's.
        *) plan_by "$task" >"$dir/plan.json" 2>/dev/null || plan_wildly "$task" >"$dir/plan.json" ;;
    esac
    placement=(--placement "$dir/plan.json")
}

# ends TASK: the lab's topology with the task's ends in it, relays' hosts among them; of senders, how many messages.
ends() {
    jq --arg from "${plan[$1.from]}" --arg to "${plan[$1.to]}" '
        ($from | split(" ")) as $from
        | .host += [.switch | to_entries[] | {name: "r\(.key + 1)", switch: .value.name, address: "198.18.\(129 + .key).2"}]
        | .host |= [.[] | .name as $name | ($from | map(select(. == $name)) | length) as $load
                    | select($load > 0 or .name == $to) | . + {load: ([$load, 1] | max)}]' "$soak_work/tree.json"
}

plan_by() {
    [[ " ${plan[$1.from]} " != *" ${plan[$1.to]} "* ]] || return 1
    ends "$1" | "$ASK_BUILD_DIR/bin/ask-plan" - --receiver "${plan[$1.to]}" --strategy "${plan[$1.strategy]}" --k "${plan[$1.k]}" --json
}

# Any relays in any order, each with any parent before it, and senders to any: no plan that anybody would make, and as exact.
plan_wildly() {
    ends "$1" | jq --argjson draws "${plan[$1.draws]}" --argjson most "${plan[$1.k]}" --arg from "${plan[$1.from]}" '
        def next: (. * 1103515245 + 12345) % 2147483648;
        def one_of($all; $draw): $all[($draw / 65536 | floor) % ($all | length)];
        ($from | split(" ")) as $from
        | . as $tree | {draw: $draws, relays: [], left: $tree.switch, hosts: []}
        | reduce range([$most, ($tree.switch | length)] | min) as $_ (.;
            .draw |= next | one_of(.left; .draw) as $switch | .left -= [$switch]
            | .draw |= next | one_of([""] + [.relays[].name]; .draw) as $parent
            | .relays += [{name: $switch.name, address: $switch.relay, parent: $parent, control: ""}])
        | reduce ($tree.host[] | select(.name | IN($from[]))) as $host (.;
            .draw |= next | one_of(["", .relays[].name, .relays[].name]; .draw) as $entry
            | .hosts += [{name: $host.name, address: $host.address, sends: $host.load, entry: $entry, at: ""}])
        | {relays, hosts, objective: "utilisation", links: []}
        # Nobody waits for a relay that nothing reaches: there is none.
        | until(([.hosts[].entry] + [.relays[].parent]) as $used | all(.relays[]; .name | IN($used[]));
                ([.hosts[].entry] + [.relays[].parent]) as $used | .relays |= map(select(.name | IN($used[]))))'
}

# relays_event KIND ARGUMENT... : those that tasks without relays do not have.
relays_event() {
    case $1 in
        relay-kill) down_and_up "$2.relayd" "$3" ;;
        relay-stop) soak_lab kill "$2.relayd" -STOP 2>/dev/null || return 0 ;;
        relay-restart) go_on "$2.relayd" && start_again "$2.relayd" ;;
        relay-reload) soak_lab kill "$2.relayd" -HUP 2>/dev/null || true ;;
        relay-agent-kill) hurts_node "$2" && down_and_up "$2" "$3" ;;
        relay-agent-stop) stop "$2" "$3" ;;
        link-cut) link_between "$2" down "$3" ;;
    esac
}

relays_undo() {
    case $1 in
        relay-stop) go_on "$2.relayd" ;;
        relay-agent-stop) go_on "$2" ;;
        link-cut) link_between "$2" up 0 ;;
    esac
}

# link_between NUMBER up|down MS
link_between() {
    local ends host
    read -ra ends < <(sed -n "$(($1 + 1))p" "$soak_work/links")
    for host in "${ends[@]}"; do [[ $host != h* && $host != r* ]] || stalls "$host" "$3"; done
    soak_lab link "${ends[@]}" "$2" >/dev/null || wrong "the link of ${ends[*]} cannot be set $2"
}

relay_idle() {
    soak_lab exec "$1" -- askctl relays --relay "unix:$soak_lab_dir/$1/relay.sock" --json 2>/dev/null |
        jq -e 'all(.[].tasks[]; .state == "committed" or .state == "failed")' >/dev/null
}

# Nothing is under way at any relay any more.
relays_idle() {
    local relay
    for relay in "${soak_relay_hosts[@]}"; do
        wait_until 30000 relay_idle "$relay" || { wrong "tasks stay on the relay $relay: $(soak_lab exec "$relay" -- askctl relays --relay "unix:$soak_lab_dir/$relay/relay.sock" | tail -n +2 | head -n 3)"; return 1; }
    done
}
