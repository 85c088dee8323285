# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A lab's daemons: configuration, start, readiness, stop.

readonly LAB_READY_MS=${ASK_LAB_READY_MS:-30000}
readonly LAB_ANSWER_S=$((LAB_READY_MS > 6000 ? LAB_READY_MS / 6000 : 1))
readonly LAB_STOP_MS=8000

# Beside its agent a relay's node has an ask-relayd, NODE.relayd to whoever means that, and the first switch may have an
# ask-controld, NODE.controld.
readonly LAB_RELAY_PORT=4793 LAB_CONTROLLER_PORT=4794

node_of() {
    local -r node=${1%.relayd}
    echo "${node%.controld}"
}

controllers() {
    ((!LAB_CONTROLLER)) || nodes_of switch | sed '1 s/$/.controld/; q'
}

relays() {
    nodes_of relay | sed 's/$/.relayd/'
}

daemon_of() {
    [[ $1 != *.relayd ]] || { echo ask-relayd && return; }
    [[ $1 != *.controld ]] || { echo ask-controld && return; }
    case ${NODE_KIND[$1]} in
        switch) echo ask-switchd ;;
        chaos) echo ask-chaosd ;;
        *) echo ask-agentd ;;
    esac
}

# The command that tells whether a node's daemon is ready.
probe_of() {
    [[ $1 == chaos ]] && echo ask-chaos || echo askctl
}

node_has_daemon() {
    [[ $1 != chaos ]] || return 0
    [[ $1 != *.relayd && $1 != *.controld ]] || { ((LAB_DAEMONS)) && return; }
    ((LAB_DAEMONS)) && [[ ${NODE_KIND[$1]} != switch || ${NODE_COLOR[$1]} == blue ]]
}

# Sets $TOML_DIR, the lab's directory as it stands within a TOML string. No other value of a lab can have quotes or backslashes.
quote_dir() {
    TOML_DIR=${LAB_DIR//\\/\\\\}
    TOML_DIR=${TOML_DIR//\"/\\\"}
}

# A CA of the lab's own, and a certificate for each node and for the people who look on.
make_certificates() {
    local node
    local -a hosts=() switches=()
    while read -r node; do hosts+=("$node=${NODE_ADDRESS[$node]},127.0.0.1"); done < <(lab_hosts)
    while read -r node; do switches+=("$node=$(switch_addresses "$node")"); done < <(nodes_of switch)
    {
        "$LAB_BIN/askctl" ca make "$LAB_DIR/tls" &&
            "$LAB_BIN/askctl" ca issue "$LAB_DIR/tls" --switch "${switches[@]}" &&
            "$LAB_BIN/askctl" ca issue "$LAB_DIR/tls" --operator operator &&
            "$LAB_BIN/askctl" ca issue "$LAB_DIR/tls" "${hosts[@]}"
    } >/dev/null || die "cannot make certificates in $LAB_DIR/tls"
}

# A switch has one in the network of each of its links.
switch_addresses() {
    local i
    printf '127.0.0.1'
    if lab_has_topology; then
        printf ',%s' "${NODE_ADDRESS[$1]}"
        switch_ends "$1" | awk '{ printf ",%s", $2 }'
    else
        for ((i = 1; i <= LAB_HOSTS; i++)); do printf ',%s' "$(link_address "$i" 1)"; done
    fi
}

# A line a port, "INTERFACE ADDRESS".
switch_ends() {
    awk -v node="$1" '$2 == node { print $4, $6 } $3 == node { print $5, $7 }' "$LAB_DIR/links"
}

# Its ports as a TOML array.
switch_ports() {
    local i ports=
    if lab_has_topology; then
        ports=$(switch_ends "$1" | awk '{ printf "%s\"%s\"", (NR > 1 ? ", " : ""), $1 }')
    else
        for ((i = 1; i <= LAB_HOSTS; i++)); do
            ports+="${ports:+, }\"p$i\""
            ((UP_INTERFACES == 1)) || ports+=", \"q$i\""
        done
    fi
    printf '[%s]' "$ports"
}

tls_keys() {
    printf 'tls_ca = "%s/ca.pem"\ntls_certificate = "%s/certificate.pem"\ntls_key = "%s/key.pem"\n' \
        "$TOML_DIR/tls/$1" "$TOML_DIR/tls/$1" "$TOML_DIR/tls/$1"
}

# Of all addresses that a daemon may have.
anywhere() {
    if ((LAB_IPV6)); then echo "[::]"; else echo 0.0.0.0; fi
}

# write_switch_config NODE NUMBER
write_switch_config() {
    cat <<TOML
listen = "$(anywhere):$LAB_SWITCH_PORT"
socket = "$TOML_DIR/$1/control.sock"
$(tls_keys "$1")
switch_id = $2
ports = $(switch_ports "$1")
bpffs = "$TOML_DIR/bpf/$1"
pin_dir = "ask"
TOML
}

# write_agent_config NODE SWITCHES: the second is a line of its configuration, or none.
write_agent_config() {
    cat <<TOML
name = "$1"
listen = "$(anywhere):4791"
socket = "$TOML_DIR/$1/agent.sock"
$(tls_keys "$1")
interface = "eth0"
$( ((UP_INTERFACES == 1)) || echo 'more_interfaces = ["eth1"]')
address = "${NODE_ADDRESS[$1]}"
switch = "${NODE_ASKS[$1]}"
TOML
    local -r controller=$(controllers)
    [[ -z $2 ]] || printf '%s\n' "$2"
    [[ -z $controller ]] || printf 'controller = "%s:%s"\n' "${NODE_ADDRESS[$(node_of "$controller")]}" "$LAB_CONTROLLER_PORT"
}

write_relay_config() {
    cat <<TOML
name = "$1"
listen = "0.0.0.0:$LAB_RELAY_PORT"
socket = "$TOML_DIR/$1/relay.sock"
agent = "$TOML_DIR/$1/agent.sock"
parents = ["198.18.0.0/15"]
$(tls_keys "$1")
TOML
}

write_controller_config() {
    jq .topology "$LAB_DIR/topology.json" >"$LAB_DIR/conf/network.json"
    cat <<TOML
listen = "0.0.0.0:$LAB_CONTROLLER_PORT"
socket = "$TOML_DIR/$1/controller.sock"
topology = "$TOML_DIR/conf/network.json"
$(tls_keys "$1")
TOML
}

hosts_table() {
    local node
    printf '[hosts]\n'
    while read -r node; do printf '%s = "%s"\n' "$node" "${NODE_ADDRESS[$node]}"; done < <(lab_hosts)
}

# overlay TEXT... < config: the config without the top-level keys that the texts set, then the texts.
overlay() {
    local text keys layer
    if (($# == 0)); then
        cat
        return
    fi
    text=$(cat)
    for layer; do
        keys=$(sed -nE 's/^[[:space:]]*([A-Za-z0-9_]+)[[:space:]]*=.*/\1/p' <<<"$layer" | paste -sd'|')
        [[ -z $keys ]] || text=$(grep -vE "^($keys) *=" <<<"$text" || true)
        text+=$'\n'$layer
    done
    printf '%s\n' "$text"
}

# write_configs: from the arrays SWITCH_CONFIGS and AGENT_CONFIGS (texts to lay over).
write_configs() {
    local node hosts all_blue='' number=0
    quote_dir
    hosts=$(hosts_table)
    ! lab_has_topology || all_blue="switches = [$(blue_switches | sed 's/.*/"&"/' | paste -sd ,)]"
    while read -r node; do
        if [[ ${NODE_KIND[$node]} == switch ]]; then
            mkdir "$LAB_DIR/$node"
            number=$((number + 1))
            write_switch_config "$node" "$number" | overlay "${SWITCH_CONFIGS[@]}" >"$LAB_DIR/conf/$node.toml"
        elif [[ $node == chaos ]]; then
            printf 'links = %s\npins = "%s"\nrate = %s\nqueue = %s\n' "$(lab_link_count)" "$TOML_DIR/bpf/chaos" \
                "$UP_RATE" "$(link_queue "$UP_RATE")" >"$LAB_DIR/conf/chaos.toml"
        else
            mkdir "$LAB_DIR/$node"
            { write_agent_config "$node" "$all_blue" | overlay "${AGENT_CONFIGS[@]}" && printf '\n%s\n' "$hosts"; } \
                >"$LAB_DIR/conf/$node.toml"
            [[ ${NODE_KIND[$node]} != relay ]] || write_relay_config "$node" >"$LAB_DIR/conf/$node.relayd.toml"
        fi
    done < <(lab_nodes)
    while read -r node; do
        write_controller_config "$(node_of "$node")" >"$LAB_DIR/conf/$node.toml"
    done < <(controllers)
}

# A process is known by its pid and its start time: pids are used again. One whose first thread alone has ended is a zombie,
# too, and has its locks and ports until the last one has.
process_start_time() {
    local stat
    local -a fields
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The command name, in parentheses, may hold anything: count fields after the last one.
    read -ra fields <<<"${stat##*) }"
    [[ ${fields[0]} != Z ]] || ((fields[17] > 1)) || return 1
    printf '%s\n' "${fields[19]}"
}

# Prints the pid of the node's daemon if it lives.
daemon_pid() {
    local pid started
    [[ -e $LAB_DIR/pids/$1 ]] || return 1
    read -r pid started <"$LAB_DIR/pids/$1"
    [[ $(process_start_time "$pid") == "$started" ]] || return 1
    printf '%s\n' "$pid"
}

# The daemon must inherit neither the lab's lock nor any pipe of whoever called, nor end with its terminal.
daemon_start() {
    local -r node=$1 program=$LAB_BIN/$(daemon_of "$1")
    local -a args
    mapfile -t args <"$LAB_DIR/args/$node"
    (
        for fd in /proc/"$BASHPID"/fd/*; do
            fd=${fd##*/}
            ((fd <= 2)) || exec {fd}>&-
        done
        unset NOTIFY_SOCKET
        exec setsid nsenter --net="/run/netns/$(lab_netns "$(node_of "$node")")" -- \
            "$program" --config "$LAB_DIR/conf/$node.toml" "${args[@]}"
    ) </dev/null >>"$LAB_DIR/logs/$node.log" 2>&1 &
    local -r pid=$!
    local started
    # No start time: it has ended already, and daemon_await says so.
    started=$(process_start_time "$pid") || started=-
    printf '%s %s\n' "$pid" "$started" >"$LAB_DIR/pids/$node"
}

# write_ways_in: a script of bash's for each node that becomes the command that it is given, there. Tests begin thousands of
# commands, and all of tools/lab takes longer to begin than most of these.
write_ways_in() {
    local node mine other
    while read -r node; do
        mine=ASK_AGENT=unix:$LAB_DIR/$node/agent.sock other=ASK_SWITCH
        [[ ${NODE_KIND[$node]} != switch ]] || mine=ASK_SWITCH=unix:$LAB_DIR/$node/control.sock other=ASK_AGENT
        {
            printf 'unset %s\n' "$other"
            # shellcheck disable=SC2016 # expanded there
            printf 'export PATH=%q:$PATH %q ASK_LAB=%q ASK_LAB_NODE=%q ASK_TLS=%q\n' "$LAB_BIN" "$mine" "$LAB_NAME" "$node" \
                "$LAB_DIR/tls/operator"
            printf 'exec nsenter --net=%q -- "$@"\n' "/run/netns/$(lab_netns "$node")"
        } >"$LAB_DIR/enter/$node"
    done < <(lab_nodes)
}

# exec_in_node NODE COMMAND... : replaces this process, so signals and exit code are the command's own.
exec_in_node() {
    local -r node=$1
    shift
    [[ -z $LAB_LOCK_FD ]] || exec {LAB_LOCK_FD}>&-
    exec bash "$LAB_DIR/enter/$node" "$@"
}

# A sixth of what a daemon may take to start is for an answer: where all is slow, so is the command that asks.
daemon_ready() {
    local -a probe=(askctl status)
    [[ $1 != *.relayd ]] || probe=(bash -c ": </dev/tcp/127.0.0.1/$LAB_RELAY_PORT")
    [[ $1 != *.controld ]] || probe=(bash -c ": </dev/tcp/127.0.0.1/$LAB_CONTROLLER_PORT")
    [[ $1 != chaos ]] || probe=(ask-chaos --pins "$LAB_DIR/bpf/chaos" status)
    (exec_in_node "$(node_of "$1")" timeout "$LAB_ANSWER_S" "${probe[@]}") </dev/null >/dev/null 2>&1
}

daemon_ready_or_dead() {
    daemon_ready "$1" || ! daemon_pid "$1" >/dev/null || orphaned
}

daemon_await() {
    local -r node=$1
    # What ends the wait may be neither the daemon's readiness nor its death.
    if wait_until "$LAB_READY_MS" daemon_ready_or_dead "$node" && ! orphaned && daemon_pid "$node" >/dev/null; then
        return
    fi
    ! orphaned || die "killed while $(daemon_of "$node") on $node started"
    local why="is not ready after $((LAB_READY_MS / 1000)) s"
    daemon_pid "$node" >/dev/null || why="has ended"
    note "$(daemon_of "$node") on $node $why; the end of its log:"
    tail -n 25 "$LAB_DIR/logs/$node.log" | sed 's/^/    /' >&2
    return 1
}

# Before all others: without it no link leads anywhere.
chaos_start() {
    daemon_start chaos
    daemon_await chaos || die "lab '$LAB_NAME' did not come up"
}

# daemons_start NODE... : those that have one, all at once.
daemons_start() {
    local node
    for node; do
        ! node_has_daemon "$node" || daemon_start "$node"
    done
    for node; do
        ! node_has_daemon "$node" || daemon_await "$node" || die "lab '$LAB_NAME' did not come up"
    done
}

# Switches first: agents register their channels with them.
daemons_start_all() {
    local -a switches hosts relays
    mapfile -t switches < <(nodes_of switch)
    mapfile -t hosts < <(lab_hosts)
    mapfile -t relays < <(relays && controllers)
    daemons_start "${switches[@]}"
    daemons_start "${hosts[@]}"
    daemons_start "${relays[@]}"
}

# Agents first, so that they can still tell the switch.
processes_stop_all() {
    local -a hosts others
    mapfile -t hosts < <(lab_hosts)
    mapfile -t others < <(nodes_of switch chaos)
    netns_prove "${hosts[@]}" "${others[@]}"
    signal_nodes TERM "${hosts[@]}"
    wait_until "$LAB_STOP_MS" lab_quiet "${hosts[@]}" || note "hosts did not stop within the deadline: killing"
    signal_nodes TERM "${others[@]}"
    wait_until "$LAB_STOP_MS" lab_quiet "${others[@]}" || note "the switch did not stop within the deadline: killing"
    signal_nodes KILL "${others[@]}" "${hosts[@]}"
    wait_until "$LAB_STOP_MS" lab_quiet "${others[@]}" "${hosts[@]}" || note "processes of lab '$LAB_NAME' survive SIGKILL"
}
