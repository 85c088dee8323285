#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a switch and its hosts may stand on: pods, overlays, other modes and addresses. nodes_test.sh pods|overlays|modes
# The rows of docs/gateways.md. What this kernel lacks is left out by name; vm/matrix has kernels that have it.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly case=${1:?}
readonly pods=(ask-pod-$$-1 ask-pod-$$-2)
# Of each sender's input; and how it sends. For the figures of docs/gateways.md there are more, and senders that merge.
readonly tuples=${NODES_TUPLES:-20000} keys=${NODES_KEYS:-2000}
read -ra sending <<<"${NODES_SENDING---merge-window 0}"
readonly sending
readonly state=$ASK_LAB_DIR/$name

on_exit() {
    local pod
    for pod in "${pods[@]}"; do ip netns del "$pod" 2>/dev/null || true; done # only one of the cases makes them
}

# added_up DIR: the switch has, for each sender.
added_up() {
    jq -e 'all(.senders[]; .tuples_switch > 0)' "$1/recv.json" >/dev/null ||
        fail "the switch did not add up for each sender: $(jq -c '[.senders[] | {name, tuples_in, tuples_switch}]' "$1/recv.json")"
}

# left_by PORT: bytes of all packets that have left the switch by it.
left_by() {
    on sw ip -statistics -json link show dev "$1" | jq '.[0].stats64.tx.bytes'
}

# in_pod NUMBER COMMAND... : as a user without capabilities, by the socket of the agent in h1.
in_pod() {
    local -r pod=${pods[$1 - 1]}
    shift
    nsenter --net="/run/netns/$pod" -- setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all \
        --inh-caps=-all --no-new-privs env PATH="$build/bin:$PATH" ASK_AGENT="unix:$state/h1/agent.sock" "$@"
}

# A node's routes as Calico has them: a pod has /32 and a gateway that answers for everybody by proxy ARP.
pod_routes() {
    local -r host=$1 port=$2 address=$3
    on sw ip -batch - <<BATCH
address flush dev $port
link set dev $port up
route replace $address/32 dev $port
BATCH
    on sw sysctl -q -w "net.ipv4.conf.$port.proxy_arp=1" "net.ipv4.neigh.$port.proxy_delay=0"
    ip netns exec "$host" ip -batch - <<BATCH
address flush dev eth0
address add $address/32 dev eth0
link set dev eth0 up
route add 169.254.1.1 dev eth0 scope link
route add default via 169.254.1.1
BATCH
}

# An application's pod, which has no agent.
bare_pod() {
    local -r pod=${pods[$1 - 1]}
    ip netns add "$pod"
    on sw ip link add "cali-app$1" type veth peer name eth0 netns "$pod"
    pod_routes "$pod" "cali-app$1" "198.18.10.$1"
}

# send_from_pods DIR ID: two applications of pods without agents, and one of a pod that has its own.
send_from_pods() {
    local -r dir=$1 id=$2
    local i
    for i in 1 2; do
        in_pod "$i" ask-send --task "$id" --to h3 "${sending[@]}" <"$dir/in$i.tsv" >"$dir/send$i.out" \
            2>"$dir/send$i.err" &
        printf '%s send%s\n' $! "$i" >>"$dir/pids"
    done
    spawn "$dir/send3" h2 ask-send --task "$id" --to h3 "${sending[@]}" "$dir/in3.tsv" </dev/null
    printf '%s send3\n' "$spawned" >>"$dir/pids"
}

# count_from_pods DIR NODE ID FLAG... : received at NODE by the agent of h3; sets $left, the bytes that left the node
# for h3 meanwhile.
count_from_pods() {
    local -r dir=$1 node=$2 id=$3
    local before pid who
    shift 3
    before=$(left_by eth-up)
    rm -f "$dir"/*.err
    spawn "$dir/recv" "$node" env ASK_AGENT="unix:$state/h3/agent.sock" ask-recv --task "$id" --senders 3 \
        --stats "$dir/recv.json" "$@" </dev/null
    printf '%s recv\n' "$spawned" >"$dir/pids"
    send_from_pods "$dir" "$id"
    while read -r pid who; do
        exit_of "$pid"
        ((code == 0)) || fail "$dir: $who ended with $code: $(cat "$dir"/*.err)"
    done <"$dir/pids"
    cmp -s "$dir/recv.out" "$dir/expected.tsv" || fail "$dir: wrong answer"
    left=$(($(left_by eth-up) - before))
}

pods() {
    local -r dir=$scratch/pods
    local i with
    lab_up --hosts 3 --config-switch <(printf 'ports = ["cali*", "eth-up", "p*"]\n') \
        --config-agent <(printf 'socket_group = "65534"\n')
    chmod o+x "$scratch" "$ASK_LAB_DIR" "$state" "$state/h1"
    for i in 1 2; do
        on sw ip link set dev "p$i" down
        on sw ip link set dev "p$i" name "cali$i"
        pod_routes "$(netns_of "h$i")" "cali$i" "198.18.$i.2"
        bare_pod "$i"
    done
    on sw ip link set dev p3 down
    on sw ip link set dev p3 name eth-up
    on sw ip link set dev eth-up up
    # The node's own address, which its pods know it by; and a way out, without which the kernel would be nobody's proxy.
    on sw ip address add 198.18.1.1/32 dev lo
    on sw ip route add default via 198.18.3.2 dev eth-up
    for i in cali1 cali2 eth-up; do wait_for 10 attached "$i"; done
    make_input "$dir" --seed 94 --senders 3 --tuples "$tuples" --keys "$keys"
    count_from_pods "$dir" h3 pods
    added_up "$dir"
    with=$left
    count_from_pods "$dir" h3 bare --no-switch
    # Of senders that merge there is less to add up.
    [[ -v NODES_SENDING ]] || ((with * 4 < left)) || fail "with the switch $with bytes left the node, without $left"
    pass "pods without capabilities send by the agent of their node: $with bytes left it, $left without the switch"
    count_from_pods "$dir" sw gateway
    added_up "$dir"
    pass "an application of the gateway receives by an agent in a namespace of its own: $left bytes came to it"
}

# The ends of host I's link get other names, so that what is put on top has theirs.
bare_wire() {
    local -r i=$1
    on sw ip -batch - <<BATCH
link set dev p$i down
address flush dev p$i
link set dev p$i name wire$i
link set dev wire$i up
BATCH
    on "h$i" ip -batch - <<BATCH
link set dev eth0 down
address flush dev eth0
link set dev eth0 name wire0
link set dev wire0 up
BATCH
}

# host_end I: eth0 of host I is as it was.
host_end() {
    on "h$1" ip -batch - <<BATCH
address add 198.18.$1.2/24 dev eth0
link set dev eth0 up
route replace default via 198.18.$1.1
BATCH
}

# on_top I ABOVE-AT-SWITCH ABOVE-AT-HOST: interfaces p<I> and eth0, as ip link add has them; "" for the wire itself.
on_top() {
    local -r i=$1 at_switch=${2-} at_host=${3-}
    if [[ -n $at_switch ]]; then
        # shellcheck disable=SC2086 # words of a command
        on sw ip link add name "p$i" $at_switch
    else
        on sw ip link set dev "wire$i" down
        on sw ip link set dev "wire$i" name "p$i"
    fi
    # shellcheck disable=SC2086 # words of a command
    on "h$i" ip link add name eth0 $at_host
    on sw ip -batch - <<BATCH
link set dev p$i up
address add 198.18.$i.1/24 dev p$i
BATCH
    host_end "$i"
}

vxlan() {
    on sw ip address add 198.19.1.1/30 dev "wire$1"
    on "h$1" ip address add 198.19.1.2/30 dev wire0
    on_top "$1" "type vxlan id 7 dstport 4789 local 198.19.1.1 remote 198.19.1.2 dev wire$1" \
        "type vxlan id 7 dstport 4789 local 198.19.1.2 remote 198.19.1.1 dev wire0"
}

macvlan() {
    on_top "$1" "" "link wire0 type macvlan mode bridge"
}

vlan() {
    on_top "$1" "link wire$1 type vlan id 7" "link wire0 type vlan id 7"
}

bond() {
    on sw ip link add name "p$1" type bond mode active-backup
    on sw ip link set dev "wire$1" down
    on sw ip link set dev "wire$1" master "p$1"
    on "h$1" ip link add name eth0 type bond mode active-backup
    on "h$1" ip link set dev wire0 down
    on "h$1" ip link set dev wire0 master eth0
    on sw ip address add "198.18.$1.1/24" dev "p$1"
    on sw ip link set dev "p$1" up
    host_end "$1"
}

netkit() {
    on sw "$root/vm/guest/make_netkit" "p$1" "e$1"
    on sw ip link set dev "e$1" netns "$(netns_of "h$1")" name eth0
    on sw ip address add "198.18.$1.1/24" dev "p$1"
    on sw ip link set dev "p$1" up
    host_end "$1"
}

# has KIND: the kernel has such interfaces.
has() {
    if [[ $1 == netkit ]]; then
        on sw "$root/vm/guest/make_netkit" try0 try1 2>/dev/null
    else
        # shellcheck disable=SC2086 # words of a command
        on sw ip link add name try0 ${2-} type "$1" ${3-} 2>/dev/null
    fi && on sw ip link del try0
}

# restart_as HOST MODE: its agent, with its XDP program in that mode.
restart_as() {
    sed -i "1i xdp_mode = \"$2\"" "$state/conf/$1.toml"
    lab_do restart "$1"
}

# Everything that has no driver of its own: generic, at the switch and at the hosts on it.
overlays() {
    local -r dir=$scratch/overlays
    local kind i=1
    local -a kinds=()
    lab_up --hosts 6 --config-switch <(printf 'xdp_mode = "generic"\nports = ["p[0-9]"]\n')
    has vxlan "" "id 1 dstport 4789 local 198.18.1.1 remote 198.18.1.2" && kinds+=(vxlan)
    has macvlan "link p1" && kinds+=(macvlan)
    has vlan "link p1" "id 9" && kinds+=(vlan)
    has bond && kinds+=(bond)
    has netkit && kinds+=(netkit)
    [[ ${kinds[*]} == "vxlan macvlan vlan bond"* ]] || kernel_lacks "one of vxlan, macvlan, vlan and bond"
    for kind in "${kinds[@]}"; do
        lab_do kill "h$i" -KILL
        bare_wire "$i"
        "$kind" "$i"
        restart_as "h$i" generic
        wait_for 10 attached "p$i"
        i=$((i + 1))
    done
    make_input "$dir" --seed 95 --senders ${#kinds[@]} --tuples 10000 --keys 700
    # shellcheck disable=SC2317 # start_task calls it
    sender_host() { printf 'h%d' "$1"; }
    # A geometry that fits into each MTU, whoever comes last.
    run_task "$dir" overlays h6 "--geometry default" "--merge-window 0"
    added_up "$dir"
    pass "by ${kinds[*]}; this kernel has no other of vxlan, macvlan, vlan, bond and netkit"
}

# refused_agent HOST TEXT FLAG... : it does not start, and says why within a second of its own; to begin takes one, too, where all
# is busy.
refused_agent() {
    local -r host=$1 text=$2
    local begin
    shift 2
    begin=$(stamped "$host" timeout $((10 * ${ASK_TEST_PATIENCE:-1})) ask-agentd --config "$state/conf/$host.toml" "$@" 2>"$scratch/refused.err") &&
        fail "the agent of $host started"
    begin=${begin%%$'\n'*}
    in_time 3000 "$begin" "$(first_stamp "$scratch/refused.err" "$begin" "$text")" "$text"
}

# A switch that is asked over IPv6, and a host that is generic while the switch is native.
modes() {
    local -r dir=$scratch/modes conf=$state/conf
    local i
    lab_up --hosts 3 --config-switch <(printf 'listen = "[::]:4792"\nports = ["p[0-9]"]\n')
    if has bond; then
        named_soon p9 "is a bond of mode 6" ip link add name p9 type bond mode balance-alb
        on sw ip link del p9
        pass "a bond is refused by name where the kernel takes no native program for its mode, after $slowest ms"
    else
        kernel_lacks bonds
    fi
    "$build/bin/askctl" ca issue "$state/tls" \
        --switch sw=127.0.0.1,198.18.1.1,198.18.2.1,198.18.3.1,2001:2:0:1::1,2001:2:0:2::1,2001:2:0:3::1 >/dev/null
    lab_do restart sw
    for i in 1 2 3; do
        on sw ip address add "2001:2:0:$i::1/64" dev "p$i"
        on "h$i" ip address add "2001:2:0:$i::2/64" dev eth0
        on "h$i" ip route add default via "2001:2:0:$i::1"
        sed -i "s/^switch = .*/switch = \"[2001:2:0:$i::1]:4792\"/" "$conf/h$i.toml"
        lab_do restart "h$i"
    done
    lab_do kill h2
    # Its program is on the interface until then, which the next one waits for.
    wait_for 10 has_ended h2
    refused_agent h2 "eth0 is a veth without GRO, where packets that a native switch sends back are lost" --xdp-mode generic
    on h2 ethtool -K eth0 gro on
    restart_as h2 generic
    pass "a host that is generic on a veth without GRO is refused by name, after $slowest ms"

    make_input "$dir" --seed 96 --senders 2 --tuples 10000 --keys 700
    run_task "$dir" modes h3 "" "--merge-window 0"
    added_up "$dir"
    pass "a switch that is asked over IPv6; a generic host at a native switch"
}

"$case"
wait_for 20 no_tasks h1 h2 h3 sw
