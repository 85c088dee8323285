#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Bonds, natively: as ports of the switch, and as interfaces of agents. Cables are pulled in mid-task, members come and go.
# Where the kernel has no bonds it says so; vm/matrix has kernels that have them. bonds_test.sh backup|lacp|six
#   backup  active-backup and balance-xor, of hosts that are generic, then native; what is refused by name
#   lacp    802.3ad and balance-rr
#   six     the same of hosts with IPv6

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly case=${1:?}

# sent_by NODE INTERFACE: packets so far.
sent_by() {
    on "$1" ip -json -stats link show dev "$2" | jq '.[0].stats64.tx.packets'
}

# sends_by NODE BOND MEMBER... : the kernel does, and by no other.
sends_by() {
    local -r node=$1 bond=$2
    shift 2
    on "$node" ip -json -details link show master "$bond" | jq -e '[.[] | {ifname} + .linkinfo.info_slave_data
        | select(.state == "ACTIVE" and .mii_status == "UP") | .ifname] | sort == $ARGS.positional' --args "$@" >/dev/null
}

# wait_for_log NODE SINCE TEXT: in a line that is no older.
wait_for_log() {
    wait_for 10 first_stamp "$ASK_LAB_DIR/$name/logs/$1.log" "$2" "$3" >/dev/null
}

# bare NODE INTERFACE: without a program, with which the kernel would let it into no bond that has one.
bare() {
    on "$1" ip -json link show dev "$2" | jq -e '.[0].xdp == null' >/dev/null
}

# bond_of NODE BOND FIRST SECOND OPTION... : of two interfaces.
bond_of() {
    local -r node=$1 bond=$2 first=$3 second=$4
    shift 4
    on "$node" ip -batch - <<BATCH
link add name $bond type bond miimon 20 $*
link set dev $first down
address flush dev $first
link set dev $first master $bond
link set dev $second master $bond
BATCH
}

# back_to_first NODE BOND FIRST: of a bond with one active member that is the one, whenever it can be.
back_to_first() {
    on "$1" ip link set dev "$2" type bond primary "$3"
    wait_for 10 sends_by "$1" "$2" "$3"
}

# with_addresses I: of the switch's end and of host I, as the lab has them.
with_addresses() {
    local -r i=$1
    if [[ $case == six ]]; then
        on sw ip -batch - <<BATCH
address add 2001:2:0:$i::1/64 dev p$i nodad
address add fe80::1/64 dev p$i nodad
BATCH
        on "h$i" ip -batch - <<BATCH
address add 2001:2:0:$i::2/64 dev eth0 nodad
address add fe80::2/64 dev eth0 nodad
route replace default via fe80::1 dev eth0
BATCH
        return
    fi
    on sw ip address add "198.18.$i.1/24" dev "p$i"
    on "h$i" ip -batch - <<BATCH
address add 198.18.$i.2/24 dev eth0
route replace default via 198.18.$i.1
BATCH
}

# bonded I OPTION... : between the switch and host I, two cables and a bond at either end, with the addresses that there were.
bonded() {
    local -r i=$1
    shift
    lab_do kill "h$i" -KILL
    on sw ip link set dev "p$i" down
    on sw ip link set dev "p$i" name "p${i}a"
    on "h$i" ip link set dev eth0 down
    on "h$i" ip link set dev eth0 name e0a
    wait_for 10 bare sw "p${i}a"
    wait_for 10 bare "h$i" e0a
    on sw ip link add name "p${i}b" numrxqueues 1 numtxqueues 1 type veth peer name e0b numrxqueues 1 numtxqueues 1 \
        netns "$(netns_of "h$i")"
    on sw ethtool -K "p${i}b" tx off txvlan off >/dev/null
    # A switch that is native hands packets to an agent that is not.
    on "h$i" ethtool -K e0a gro on >/dev/null
    on "h$i" ethtool -K e0b tx off txvlan off gro on >/dev/null
    bond_of sw "p$i" "p${i}a" "p${i}b" "$@"
    bond_of "h$i" eth0 e0a e0b "$@"
    on sw ip link set dev "p$i" up
    on "h$i" ip link set dev eth0 up
    with_addresses "$i"
}

# restart_as HOST MODE: its agent, with its XDP program in that mode.
restart_as() {
    local -r file=$ASK_LAB_DIR/$name/conf/$1.toml
    sed -i '/^xdp_mode/d' "$file"
    sed -i "1i xdp_mode = \"$2\"" "$file"
    lab_do restart "$1"
}

# added_up DIR: the switch has, for each sender that is not the receiver's host.
added_up() {
    jq -e '[.senders[] | select(.tuples_switch > 0)] | length == 2' "$1/recv.json" >/dev/null ||
        fail "the switch did not add up for both senders: $(jq -c '[.senders[] | {name, tuples_in, tuples_switch}]' "$1/recv.json")"
}

# No packet came by a port that the switch did not expect it by, or was passed to the stack for want of a way.
all_by_program() {
    local counter
    for counter in bad_port up_no_route; do
        on sw askctl counters --json | jq -e --arg name "$counter" 'all(.[]; .name != $name or (.value | tonumber) == 0)' >/dev/null ||
            fail "the switch has counted $counter: $(on sw askctl counters)"
    done
}

# The first half, and the rest once a cable is out.
until_cut() {
    local -r half=$(($(wc -l <"$1") / 2))
    head -n "$half" "$1"
    wait_for 30 test -e "$scratch/cut"
    tail -n +$((half + 1)) "$1"
}

# h1_sends_by MEMBER... : a, b or both, at both ends of its bond. With 802.3ad the kernel waits for seconds before it is sure.
h1_sends_by() {
    wait_for 30 sends_by h1 eth0 "${@/#/e0}"
    wait_for 30 sends_by sw p1 "${@/#/p1}"
}

# cut_in_task ID MEMBER... : a sender's cable and one of the receiver's are pulled out in the middle. h1_sends_by these
# members while all cables are in.
cut_in_task() {
    local -r dir=$scratch/bonds id=$1
    local before
    shift
    rm -f "$scratch/cut"
    FEED=until_cut start_task "$dir" "$id" h3 "" "--merge-window 0"
    wait_for 20 sent_at_least 1000
    on h1 ip link set dev e0a down
    on h3 ip link set dev e0a down
    h1_sends_by b
    before=$(sent_by h1 e0b)
    touch "$scratch/cut"
    finish_task "$dir"
    added_up "$dir"
    (($(sent_by h1 e0b) - before > 200)) || fail "h1 sent $(($(sent_by h1 e0b) - before)) packets by its other cable"
    on h1 ip link set dev e0a up
    on h3 ip link set dev e0a up
    h1_sends_by "$@"
}

# multiples N: 0, N, 2N ... as int64.
multiples() {
    perl -e 'print pack("q<*", map { $_ * $ARGV[0] } 0 .. 1999)' "$1"
}

# A group of all three hosts, each with multiples of its own.
add_up() {
    local -a members=()
    local rank
    for rank in 0 1 2; do
        multiples $((rank + 1)) >"$scratch/values$rank"
        spawn "$scratch/group$rank" "h$((rank + 1))" ask-allreduce --group "$1" --rank "$rank" --size 3 --root h3 \
            "$scratch/values$rank" </dev/null
        members+=("$spawned")
    done
    for rank in 0 1 2; do
        exit_of "${members[rank]}"
        ((code == 0)) || fail "group $1: rank $rank ended with $code: $(cat "$scratch/group$rank.err")"
        cmp -s "$scratch/group$rank.out" <(multiples 6) || fail "group $1: rank $rank has another sum"
    done
}

refused() {
    named_soon p9 "is a bond of mode 5" ip link add name p9 type bond mode balance-tlb
    on sw ip link del p9
    named_soon p8 "is VLAN 7 of p1, a bond" ip link add link p1 name p8 type vlan id 7
    on sw ip link del p8
    pass "bonds of other modes, and VLANs of bonds, are refused by name"
}

# The members of h1's bond, at both ends: one leaves, the other is left; it comes back, and the other leaves.
members_come_and_go() {
    local -r dir=$scratch/bonds
    local stamps
    stamps=$(stamped sw ip link set dev p1a nomaster)
    on h1 ip link set dev e0a nomaster
    wait_for_log sw "${stamps%%$'\n'*}" "port p1: a bond of 1 members"
    on sw ip link set dev p1a down
    on h1 ip link set dev e0a down
    # It may have come one member after the other in the beginning, too.
    stamps=$(stamped sw ip link set dev p1a master p1)
    on h1 ip link set dev e0a master eth0
    wait_for_log sw "${stamps%%$'\n'*}" "port p1: a bond of 2 members"
    wait_for_log h1 "${stamps%%$'\n'*}" "member e0a has come"
    on h1 ip link del e0b
    h1_sends_by a
    run_task "$dir" again h3 "" "--merge-window 0"
    added_up "$dir"
}

# natively TEXT MEMBER... : both ends of both bonds; what holds whatever their modes.
natively() {
    local -r text=$1
    shift
    restart_as h1 native
    restart_as h3 native
    cut_in_task both "$@"
    all_by_program
    pass "$text; a cable of either is pulled out in mid-task"
    add_up group
    pass "a group with members behind bonds"
    members_come_and_go
    all_by_program
    pass "members that leave a bond and come back, at both ends"
}

# Ports that are bonds, of hosts that are generic; then agents on bonds.
backup() {
    bonded 1 mode active-backup
    back_to_first sw p1 p1a
    back_to_first h1 eth0 e0a
    bonded 3 mode balance-xor xmit_hash_policy layer3+4
    wait_for 10 attached p1
    wait_for 10 attached p3
    restart_as h1 generic
    restart_as h3 generic
    cut_in_task ports a
    all_by_program
    pass "ports that are bonds, natively, of hosts that are generic; a cable of either is pulled out in mid-task"
    refused
    natively "agents on bonds, natively, at such ports" a
}

# Ends with 802.3ad agree by messages of their own on the members that they send by.
lacp() {
    bonded 1 mode 802.3ad lacp_rate fast xmit_hash_policy layer3+4
    bonded 3 mode balance-rr
    wait_for 10 attached p1
    wait_for 10 attached p3
    h1_sends_by a b
    natively "802.3ad and balance-rr, natively, at ports and agents" a b
}

six() {
    lacp
}

if ! ip link add name "try$$" type bond 2>/dev/null; then
    kernel_lacks bonds
    exit 0
fi
ip link del "try$$"
family=()
[[ $case != six ]] || family=(--ipv6)
lab_up --hosts 3 "${family[@]}" --config-switch <(printf 'ports = ["p[0-9]"]\n')
make_input "$scratch/bonds" --seed 97 --senders 3 --tuples "${BONDS_TUPLES:-20000}" --keys 1500
"$case"
wait_for 20 no_tasks h1 h2 h3 sw
