# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Networks of namespaces with daemons in them, out of whatever interfaces a guest has. Host i is 198.18.i.2, the
# switch 198.18.i.1 on its port to it. Nothing is undone: the guest ends. Needs count.sh.

readonly NET=/run/ask-net
readonly BIN=${ASK_BUILD_DIR:?names the build}/bin
readonly SWITCH_CONTROL=198.18.1.1:4792
# Two guests share nothing but a wire: no certificate, either.
readonly PLAIN_TEXT='plain_text = "everywhere"'
# Emulated and shared processors.
readonly PATIENCE=300

# wait_for SECONDS COMMAND... : until the command succeeds.
wait_for() {
    local -r deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.1
    done
}

# node NAME : a namespace, with a bpffs of its own.
node() {
    mkdir -p "$NET/$1/bpf"
    mount -t bpf "ask-$1" "$NET/$1/bpf"
    ip netns add "$1"
    ip -n "$1" link set dev lo up
    in_node "$1" sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.ip_forward=1
}

# `ip netns exec` would hide bpffs.
in_node() {
    local node=$1
    shift
    nsenter --net="/run/netns/$node" -- "$@"
}

on() {
    local node=$1
    shift
    local default=ASK_AGENT=unix:$NET/$node/agent.sock
    [[ $node != sw ]] || default=ASK_SWITCH=unix:$NET/sw/control.sock
    in_node "$node" env PATH="$BIN:$PATH" "$default" "$@"
}

# port NODE DEVICE NAME ADDRESS : gives one of the guest's interfaces to a node.
port() {
    local node=$1 device=$2 name=$3 address=$4
    ip link set dev "$device" netns "$node"
    ip -n "$node" -batch - <<BATCH || fail "cannot set up $device as $name of $node"
link set dev $device name $name
address add $address/24 dev $name
link set dev $name up
BATCH
}

# card_device MAC : the interface of the guest's own namespace that has it. await_card MAC : until there is one.
card_device() {
    ip -json link show | jq -er --arg mac "$1" '.[] | select(.address == $mac) | .ifname'
}

await_card() {
    wait_for "$PATIENCE" card_device "$1" >/dev/null || fail "the guest has no card $1"
}

# host_port I DEVICE, switch_port I DEVICE : the ends of host i's link.
host_port() {
    port "h$1" "$2" eth0 "198.18.$1.2"
    ip -n "h$1" route add default via "198.18.$1.1"
}

switch_port() {
    port sw "$2" "p$1" "198.18.$1.1"
}

# veth A B : a pair in the guest's own namespace, without offloads that XDP cannot see through.
veth() {
    ip link add "$1" numrxqueues 1 numtxqueues 1 type veth peer name "$2" numrxqueues 1 numtxqueues 1
    ethtool -K "$1" tx off txvlan off gro off >/dev/null
    ethtool -K "$2" tx off txvlan off gro off >/dev/null
}

# switch_config PORT..., agent_config I HOSTS : TOML.
switch_config() {
    local names
    printf -v names ', "%s"' "$@"
    cat <<TOML
listen = "0.0.0.0:4792"
socket = "$NET/sw/control.sock"
$PLAIN_TEXT
ports = [${names:2}]
bpffs = "$NET/sw/bpf"
TOML
}

agent_config() {
    local i
    cat <<TOML
name = "h$1"
listen = "0.0.0.0:4791"
socket = "$NET/h$1/agent.sock"
$PLAIN_TEXT
interface = "eth0"
switch = "$SWITCH_CONTROL"

[hosts]
TOML
    for ((i = 1; i <= $2; i++)); do printf 'h%s = "198.18.%s.2"\n' "$i" "$i"; done
}

# daemon NODE PROGRAM ARGUMENT... : with NODE's configuration, in the background; the log is NET/NODE/log.
daemon() {
    local node=$1 program=$2
    shift 2
    on "$node" "$program" --config "$NET/$node/config.toml" "$@" >>"$NET/$node/log" 2>&1 </dev/null &
    daemons[$node]=$!
}
declare -A daemons=()

ready_or_dead() {
    on "$1" timeout 30 askctl status >/dev/null 2>&1 || ! kill -0 "${daemons[$1]}" 2>/dev/null
}

await_ready() {
    if ! wait_for "$PATIENCE" ready_or_dead "$1" || ! kill -0 "${daemons[$1]}" 2>/dev/null; then
        fail "the daemon of $1 is not ready: $(tail -n 20 "$NET/$1/log")"
    fi
}

# start_switch PORT..., start_hosts COUNT I... : the daemons, until they are ready.
start_switch() {
    switch_config "$@" >"$NET/sw/config.toml"
    daemon sw ask-switchd
    await_ready sw
}

start_hosts() {
    local -r count=$1
    local i
    shift
    for i; do
        agent_config "$i" "$count" >"$NET/h$i/config.toml"
        daemon "h$i" ask-agentd
    done
    for i; do await_ready "h$i"; done
}
