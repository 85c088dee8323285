# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A lab's daemons: configuration, start, readiness, stop.

readonly LAB_READY_MS=${ASK_LAB_READY_MS:-30000}
readonly LAB_STOP_MS=8000
readonly LAB_SWITCH_ADDRESS=198.18.1.1:4792

daemon_of() {
    case $1 in
        sw) echo ask-switchd ;;
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
    ((LAB_DAEMONS)) && [[ $1 != sw || $LAB_SWITCH == on ]]
}

# Prints a TOML string; no value of a lab contains quotes or backslashes but for odd directory names.
toml_string() {
    local text=${1//\\/\\\\}
    printf '"%s"' "${text//\"/\\\"}"
}

# A CA of the lab's own, and a certificate for each node and for the people who look on.
make_certificates() {
    local i
    local -a hosts=()
    for ((i = 1; i <= LAB_HOSTS; i++)); do hosts+=("h$i=198.18.$i.2,127.0.0.1"); done
    {
        "$LAB_BIN/askctl" ca make "$LAB_DIR/tls" &&
            "$LAB_BIN/askctl" ca issue "$LAB_DIR/tls" --switch "sw=$(switch_addresses)" &&
            "$LAB_BIN/askctl" ca issue "$LAB_DIR/tls" --operator operator &&
            "$LAB_BIN/askctl" ca issue "$LAB_DIR/tls" "${hosts[@]}"
    } >/dev/null || die "cannot make certificates in $LAB_DIR/tls"
}

# The switch has one in each host's network.
switch_addresses() {
    local i
    printf '127.0.0.1'
    for ((i = 1; i <= LAB_HOSTS; i++)); do printf ',198.18.%s.1' "$i"; done
}

tls_keys() {
    local -r dir=$LAB_DIR/tls/$1
    printf 'tls_ca = %s\ntls_certificate = %s\ntls_key = %s\n' "$(toml_string "$dir/ca.pem")" \
        "$(toml_string "$dir/certificate.pem")" "$(toml_string "$dir/key.pem")"
}

write_switch_config() {
    local i ports=
    for ((i = 1; i <= LAB_HOSTS; i++)); do ports+="${ports:+, }\"p$i\""; done
    cat <<TOML
listen = "0.0.0.0:4792"
socket = $(toml_string "$LAB_DIR/sw/control.sock")
$(tls_keys sw)
switch_id = 1
ports = [$ports]
bpffs = $(toml_string "$LAB_DIR/bpf/sw")
pin_dir = "ask"
TOML
}

write_agent_config() {
    local -r i=${1#h}
    local switch=
    [[ $LAB_SWITCH != on ]] || switch=$LAB_SWITCH_ADDRESS
    cat <<TOML
name = "$1"
listen = "0.0.0.0:4791"
socket = $(toml_string "$LAB_DIR/$1/agent.sock")
$(tls_keys "$1")
interface = "eth0"
address = "198.18.$i.2"
switch = "$switch"
TOML
}

write_hosts_table() {
    local i
    printf '\n[hosts]\n'
    for ((i = 1; i <= LAB_HOSTS; i++)); do printf 'h%s = "198.18.%s.2"\n' "$i" "$i"; done
}

# overlay TEXT... < config: the config without the top-level keys that the texts set, then the texts.
overlay() {
    local text keys layer
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
    local node
    while read -r node; do
        if [[ $node == sw ]]; then
            mkdir "$LAB_DIR/sw"
            write_switch_config | overlay "${SWITCH_CONFIGS[@]}" >"$LAB_DIR/conf/sw.toml"
        elif [[ $node == chaos ]]; then
            printf 'links = %s\npins = %s\n' "$LAB_HOSTS" "$(toml_string "$LAB_DIR/bpf/chaos")" >"$LAB_DIR/conf/chaos.toml"
        else
            mkdir "$LAB_DIR/$node"
            { write_agent_config "$node" | overlay "${AGENT_CONFIGS[@]}" && write_hosts_table; } \
                >"$LAB_DIR/conf/$node.toml"
        fi
    done < <(lab_nodes)
}

# A process is known by its pid and its start time: pids are used again.
process_start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The command name, in parentheses, may hold anything: count fields after the last one.
    stat=${stat##*) }
    [[ $stat != Z* ]] || return 1
    cut -d' ' -f20 <<<"$stat"
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
        exec setsid nsenter --net="/run/netns/$(lab_netns "$node")" -- \
            "$program" --config "$LAB_DIR/conf/$node.toml" "${args[@]}"
    ) </dev/null >>"$LAB_DIR/logs/$node.log" 2>&1 &
    local -r pid=$!
    local started
    # No start time: it has ended already, and daemon_await says so.
    started=$(process_start_time "$pid") || started=-
    printf '%s %s\n' "$pid" "$started" >"$LAB_DIR/pids/$node"
}

# exec_in_node NODE COMMAND... : replaces this process, so signals and exit code are the command's own.
exec_in_node() {
    local -r node=$1
    shift
    [[ -z $LAB_LOCK_FD ]] || exec {LAB_LOCK_FD}>&-
    export PATH=$LAB_BIN:$PATH ASK_LAB=$LAB_NAME ASK_LAB_NODE=$node ASK_TLS=$LAB_DIR/tls/operator
    if [[ $node == sw ]]; then
        unset ASK_AGENT
        export ASK_SWITCH=unix:$LAB_DIR/sw/control.sock
    else
        unset ASK_SWITCH
        export ASK_AGENT=unix:$LAB_DIR/$node/agent.sock
    fi
    exec nsenter --net="/run/netns/$(lab_netns "$node")" -- "$@"
}

daemon_ready() {
    local -a probe=(askctl status)
    [[ $1 != chaos ]] || probe=(ask-chaos --pins "$LAB_DIR/bpf/chaos" status)
    (exec_in_node "$1" timeout 5 "${probe[@]}") </dev/null >/dev/null 2>&1
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

# Switch first: agents register their channels with it.
daemons_start_all() {
    local i
    if node_has_daemon sw; then
        daemon_start sw
        daemon_await sw || die "lab '$LAB_NAME' did not come up"
    fi
    for ((i = 1; i <= LAB_HOSTS; i++)); do daemon_start "h$i"; done
    for ((i = 1; i <= LAB_HOSTS; i++)); do
        daemon_await "h$i" || die "lab '$LAB_NAME' did not come up"
    done
}

# Agents first, so that they can still tell the switch.
processes_stop_all() {
    local -a hosts
    local -a others=(sw)
    mapfile -t hosts < <(lab_nodes | grep '^h')
    ((!LAB_CHAOS)) || others+=(chaos)
    signal_nodes TERM "${hosts[@]}"
    wait_until "$LAB_STOP_MS" lab_quiet "${hosts[@]}" || note "hosts did not stop within the deadline: killing"
    signal_nodes TERM "${others[@]}"
    wait_until "$LAB_STOP_MS" lab_quiet "${others[@]}" || note "the switch did not stop within the deadline: killing"
    signal_nodes KILL "${others[@]}" "${hosts[@]}"
    wait_until "$LAB_STOP_MS" lab_quiet "${others[@]}" "${hosts[@]}" || note "processes of lab '$LAB_NAME' survive SIGKILL"
}
