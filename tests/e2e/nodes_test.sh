#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a switch and its hosts may stand on: pods, overlays, other modes and addresses. nodes_test.sh pods|overlays|modes
# The rows of docs/gateways.md. What this kernel lacks is left out by name; vm/matrix has kernels that have it.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly case=${1:?}
readonly pods=(ask-pod-$$-1 ask-pod-$$-2)
# Of each sender's input.
readonly tuples=${NODES_TUPLES:-20000}
readonly state=$ASK_LAB_DIR/$name

on_exit() {
    local pod
    for pod in "${pods[@]}"; do ip netns del "$pod" 2>/dev/null || true; done # only one of the cases makes them
}

# port_is NAME JQ: what the switch says of a port.
port_is() {
    on sw askctl status --json | jq -e --arg name "$1" "any(.ports[]; .name == \$name and ($2))" >/dev/null
}

attached() {
    port_is "$1" '.attached'
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

netns_of() {
    lab_do status --json | jq -r --arg node "$1" '.nodes[] | select(.node == $node) | .netns'
}

# send_from_pods DIR ID: two applications of pods without agents, and one of a pod that has its own.
send_from_pods() {
    local -r dir=$1 id=$2
    local i
    for i in 1 2; do
        in_pod "$i" ask-send --task "$id" --to h3 --merge-window 0 <"$dir/in$i.tsv" >"$dir/send$i.out" \
            2>"$dir/send$i.err" &
        printf '%s send%s\n' $! "$i" >>"$dir/pids"
    done
    spawn "$dir/send3" h2 ask-send --task "$id" --to h3 --merge-window 0 "$dir/in3.tsv" </dev/null
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
    make_input "$dir" --seed 94 --senders 3 --tuples "$tuples" --keys 2000
    count_from_pods "$dir" h3 pods
    added_up "$dir"
    with=$left
    count_from_pods "$dir" h3 bare --no-switch
    ((with * 4 < left)) || fail "with the switch $with bytes left the node, without $left"
    pass "pods without capabilities send by the agent of their node: $with bytes left it, $left without the switch"
    count_from_pods "$dir" sw gateway
    added_up "$dir"
    pass "an application of the gateway receives by an agent in a namespace of its own"
}

"$case"
wait_for 20 no_tasks h1 h2 h3 sw
