# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A lab on disk: its directory, its lock, and the list of what it made.
#
#   $LAB_BASE/NAME.lock      flock, held while a lab is built, changed or taken down
#   $LAB_BASE/NAME/made      what this lab made, one "kind name" a line, written *before* the thing is made
#   $LAB_BASE/NAME/token     random; every thing made carries it, and only what carries it is ever removed
#   $LAB_BASE/NAME/settings  hosts, bin directory and the rest, as shell assignments
#   $LAB_BASE/NAME/ready     exists once `up` has finished
#   $LAB_BASE/NAME/{conf,logs,args,pids}/NODE..., bpf/NODE (a bpffs), NODE/agent.sock
#   $LAB_BASE/NAME/enter/NODE  run by bash, becomes a command there
#   $LAB_BASE/NAME/{topology.json,nodes,links,cut}   of a lab of several switches (lab_topology.sh)

readonly LAB_BASE=${ASK_LAB_DIR:-/run/ask-lab}
# As many senders as a bench has, and a receiver.
readonly LAB_MAX_HOSTS=65
readonly LAB_SWITCH_PORT=4792
# The injector's programs are native XDP without fragments.
# shellcheck disable=SC2034 # used by tools/lab
readonly LAB_CHAOS_MTU=3506

LAB_NAME=
LAB_DIR=
LAB_TOKEN=
LAB_LOCK_FD=

# Nodes in their order, the switches first, what is in the middle of links last; of each its kind (switch, host, relay or
# chaos), its address, the control address of the switch that an agent is told, and whether a switch aggregates (blue) or
# only routes (red).
LAB_NODES=()
# shellcheck disable=SC2034 # read by the other files
declare -A NODE_KIND=() NODE_ADDRESS=() NODE_ASKS=() NODE_COLOR=()

lab_select() {
    [[ $1 =~ ^[a-z0-9-]{1,12}$ ]] || usage_error "bad lab name '$1': 1 to 12 of a-z, 0-9 and -"
    LAB_NAME=$1
    LAB_DIR=$LAB_BASE/$1
    # sockaddr_un holds 108 bytes, one of them the final zero; askctl's socket is the agent's with .ctl added.
    local -r longest=$LAB_DIR/h$LAB_MAX_HOSTS/agent.sock.ctl
    ((${#longest} < 108)) || die "$LAB_BASE is too long a path for Unix sockets: choose a shorter ASK_LAB_DIR"
}

lab_exists() {
    [[ -e $LAB_DIR/token ]]
}

lab_require() {
    lab_exists || die "no lab '$LAB_NAME' here: tools/lab up --name $LAB_NAME"
}

# lab_lock SECONDS: takes the lab's lock for the rest of this process, or fails.
# `down` unlinks the lock file while it holds it, so a lock counts only if the path still leads to it.
lab_lock() {
    local -r file=$LAB_BASE/$LAB_NAME.lock
    while :; do
        mkdir -p "$LAB_BASE"
        # LAB_BASE may vanish between the two lines when another lab was the last one: then again.
        { exec {LAB_LOCK_FD}>>"$file"; } 2>/dev/null || continue
        if ! flock --wait "$1" "$LAB_LOCK_FD"; then
            die "lab '$LAB_NAME' is being changed by another tools/lab (pid $(tail -n1 "$file"))"
        fi
        if [[ $file -ef /proc/self/fd/$LAB_LOCK_FD ]]; then
            printf '%s\n' $$ >>"$file"
            return
        fi
        exec {LAB_LOCK_FD}>&-
    done
}

# Takes the lock file away; the lab's directory is gone by now. LAB_BASE goes with the last lab.
lab_unlock_and_forget() {
    rm -rf --one-file-system "$LAB_BASE/.$LAB_NAME.new"
    rm -f "$LAB_BASE/$LAB_NAME.lock"
    exec {LAB_LOCK_FD}>&-
    rmdir --ignore-fail-on-non-empty "$LAB_BASE" 2>/dev/null || true
}

# Built aside and moved into place: a directory of a lab is whole from its first moment.
lab_create_state() {
    local -r new=$LAB_BASE/.$LAB_NAME.new
    rm -rf --one-file-system "$new"
    mkdir -p "$new"/{conf,logs,args,pids,bpf,enter}
    LAB_TOKEN=ask-lab-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    printf '%s\n' "$LAB_TOKEN" >"$new/token"
    : >"$new/made"
    mv --no-target-directory "$new" "$LAB_DIR" 2>/dev/null ||
        die "$LAB_DIR exists but is no lab: leaving it alone (remove it if it is not needed)"
}

lab_load_token() {
    LAB_TOKEN=$(<"$LAB_DIR/token")
    [[ $LAB_TOKEN =~ ^ask-lab-[0-9a-f]{16}$ ]] || die "$LAB_DIR/token is damaged: not touching anything by its word"
}

# lab_save NAME=VALUE... : settings that later commands need.
lab_save() {
    local pair
    for pair; do
        printf '%s=%q\n' "${pair%%=*}" "${pair#*=}"
    done >"$LAB_DIR/settings"
}

lab_load() {
    lab_load_token
    # Read by the other files of tools/lib.
    # shellcheck disable=SC2034
    LAB_HOSTS=0 LAB_SWITCH=on LAB_DAEMONS=0 LAB_CHAOS=0 LAB_BIN='' LAB_TOPOLOGY='' LAB_CONTROLLER=0 LAB_IPV6=0
    # shellcheck source=/dev/null
    [[ ! -e $LAB_DIR/settings ]] || source "$LAB_DIR/settings"
    lab_know_nodes
}

lab_record() {
    ! orphaned || die "killed"
    printf '%s %s\n' "$1" "$2" >>"$LAB_DIR/made"
}

# lab_made KIND: names recorded under the kind, latest first.
lab_made() {
    awk -v kind="$1" '$1 == kind { print $2 }' "$LAB_DIR/made" | tac
}

# node_known KIND NAME ADDRESS COLOR ASKS
node_known() {
    LAB_NODES+=("$2")
    # shellcheck disable=SC2034 # read by the other files
    NODE_KIND[$2]=$1 NODE_ADDRESS[$2]=$3 NODE_COLOR[$2]=$4 NODE_ASKS[$2]=$5
}

# has_ipv6 I: host I has, and no IPv4. LAB_IPV6 is the first that does; 0: none.
has_ipv6() {
    ((LAB_IPV6 && $1 >= LAB_IPV6))
}

# link_address I END: in a lab of one switch, of its end (1) or the host's (2) of the link of host I. 2001:2::/48 is for
# benchmarks, as 198.18.0.0/15 is.
link_address() {
    if has_ipv6 "$1"; then echo "2001:2:0:$1::$2"; else echo "198.18.$1.$2"; fi
}

# control_address ADDRESS PORT
control_address() {
    if [[ $1 == *:* ]]; then echo "[$1]:$2"; else echo "$1:$2"; fi
}

# From the settings, or from the topology's file.
lab_know_nodes() {
    local i kind name address place asks color=red
    LAB_NODES=()
    if [[ -e $LAB_DIR/nodes ]]; then
        while read -r kind name address place asks; do
            [[ $asks != - ]] && asks+=:$LAB_SWITCH_PORT || asks=
            node_known "$kind" "$name" "$address" "$place" "$asks"
        done <"$LAB_DIR/nodes"
    else
        [[ $LAB_SWITCH != on ]] || color=blue
        address=$(link_address 1 1)
        node_known switch sw "$address" "$color" ""
        asks=$(control_address "$address" "$LAB_SWITCH_PORT")
        [[ $LAB_SWITCH == on ]] || asks=
        for ((i = 1; i <= LAB_HOSTS; i++)); do
            # The first of them with IPv6 may be behind others.
            ((i != LAB_IPV6)) || [[ -z $asks ]] || asks=$(control_address "$(link_address "$i" 1)" "$LAB_SWITCH_PORT")
            node_known host "h$i" "$(link_address "$i" 2)" "" "$asks"
        done
    fi
    ((!LAB_CHAOS)) || node_known chaos chaos none "" ""
}

lab_nodes() {
    printf '%s\n' "${LAB_NODES[@]}"
}

# nodes_of KIND... : those of one of the kinds, a line each.
nodes_of() {
    local node
    for node in "${LAB_NODES[@]}"; do
        [[ " $* " != *" ${NODE_KIND[$node]} "* ]] || printf '%s\n' "$node"
    done
}

# Those where an agent is.
lab_hosts() {
    nodes_of host relay
}

lab_has_topology() {
    [[ -e $LAB_DIR/nodes ]]
}

lab_require_node() {
    local nodes
    nodes="${LAB_NODES[*]}"
    [[ " $nodes " == *" $1 "* ]] || die "lab '$LAB_NAME' has no node '$1': it has $nodes"
}

# The same, or NODE.relayd of a relay, or the controller.
lab_require_daemon() {
    local -r node=$(node_of "$1")
    lab_require_node "$node"
    [[ $1 != *.relayd || ${NODE_KIND[$node]} == relay ]] || die "$node of lab '$LAB_NAME' is no relay"
    [[ $1 != *.controld || $1 == "$(controllers)" ]] || die "lab '$LAB_NAME' has no controller at $node"
}

lab_netns() {
    printf 'ask-%s-%s\n' "$LAB_NAME" "$1"
}
