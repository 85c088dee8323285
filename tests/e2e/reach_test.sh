#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Where a switch may stand: ports that come and go, taps, hosts with several ways out, bridges, VLANs, long frames.
# reach_test.sh ports|taps|ways|bridge|moves|vlans|jumbo|interfaces
# The rows of docs/gateways.md.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly case=${1:?}
readonly elsewhere=ask-reach-$$

on_exit() {
    ip netns del "$elsewhere" 2>/dev/null || true # only some of the cases make it
}

switch_counts() {
    on sw askctl counters --json | jq -e --arg name "$1" 'any(.[]; .name == $name and (.value | tonumber) > 0)' >/dev/null
}

# added_up DIR: the switch has, for both senders that are not the receiver's host.
added_up() {
    jq -e '[.senders[] | select(.tuples_switch > 0)] | length == 2' "$1/recv.json" >/dev/null ||
        fail "the switch did not add up for both senders: $(jq -c '[.senders[] | {name, tuples_in, tuples_switch}]' "$1/recv.json")"
}

# The first half of a file, and the other once the port has been away and is back.
around_the_gap() {
    local -r half=$(($(wc -l <"$1") / 2))
    head -n "$half" "$1"
    wait_for 20 test -e "$scratch/back"
    tail -n +$((half + 1)) "$1"
}

# The port of h1 leaves the namespace, and comes back by its name as another interface: its number is taken meanwhile.
port_made_again() {
    local -r before=$(on sw ip -json link show dev p1 | jq '.[0].ifindex')
    on sw ip link set p1 netns "$elsewhere"
    wait_for 10 gone p1
    on sw ip link add name taken index "$before" type veth peer name taken-too
    nsenter --net="/run/netns/$elsewhere" ip link set p1 netns "$1"
    on sw ip -batch - <<BATCH
address add 198.18.1.1/24 dev p1
link set dev p1 up
BATCH
    wait_for 10 attached p1
    [[ $(on sw ip -json link show dev p1 | jq '.[0].ifindex') != "$before" ]] || fail "p1 is the interface that it was"
    touch "$scratch/back"
}

gone() {
    on sw askctl status --json | jq -e --arg name "$1" 'all(.ports[]; .name != $name or (.attached | not))' >/dev/null
}

ports() {
    local -r dir=$scratch/gap
    lab_up --hosts 3 --config-switch <(printf 'ports = ["later0", "p[1-9]*"]\n')
    ip netns add "$elsewhere"
    attached p2 || fail "no pattern has p2: $(on sw askctl status)"
    troubled later0 "no such interface" || fail "later0 is not waited for: $(on sw askctl status --json)"

    make_input "$dir" --seed 91 --senders 3 --tuples 60000 --keys 4000
    FEED=around_the_gap start_task "$dir" gap h2 "" "--merge-window 0"
    wait_for 20 sent_at_least 1000
    port_made_again "$(netns_of sw)"
    finish_task "$dir"
    added_up "$dir"
    pass "a port that is made again in mid-task loses nothing"

    on sw ip link add later0 type veth peer name later1
    wait_for 10 attached later0
    named_soon later0 "no such interface" ip link set later0 name later2
    on sw ip link set later2 name p7
    wait_for 10 attached p7
    on sw ip link del p7
    wait_for 10 lacks p7
    pass "ports are attached as they come, and forgotten as they go; what is missing is named after $slowest ms"
    host_made_again "$dir"
}

# The other end of a port goes with it, and is the interface of an agent: it ends, and says why, as it would hear nothing by one that
# comes under that name.
host_made_again() {
    local -r dir=$1
    local -r gone="interface eth0 is gone, and the agent's sockets with it" log=$ASK_LAB_DIR/$name/logs/h1.log
    local stamps begin
    stamps=$(stamped sw ip link del p1)
    begin=${stamps%%$'\n'*}
    wait_for 10 first_stamp "$log" "$begin" "$gone" >/dev/null
    # It looks once a second, and may be kept from it for two.
    in_time 3000 "${stamps##*$'\n'}" "$(first_stamp "$log" "$begin" "$gone")" "$gone"
    wait_for 10 has_ended h1
    on sw ip link add p1 type veth peer name eth0 netns "$(netns_of h1)"
    on sw ethtool -K p1 tx off txvlan off gro off >/dev/null
    on h1 ethtool -K eth0 tx off txvlan off gro off >/dev/null
    on sw ip -batch - <<'BATCH'
address add 198.18.1.1/24 dev p1
link set dev p1 up
BATCH
    on h1 ip -batch - <<'BATCH'
address add 198.18.1.2/24 dev eth0
link set dev eth0 up
route add default via 198.18.1.1
BATCH
    wait_for 10 attached p1
    lab_do restart h1
    run_task "$dir" anew h2 "" "--merge-window 0"
    added_up "$dir"
    pass "a host that is made again: its agent has ended by name, and works once it is started again"
}

lacks() {
    on sw askctl status --json | jq -e --arg name "$1" 'all(.ports[]; .name != $name)' >/dev/null
}

# tap_of I: what the switch has of guest I, as libvirt makes it: its Ethernet address follows from the guest's.
tap_of() {
    local -r i=$1
    on sw ip -batch - <<BATCH
tuntap add dev vnet$i mode tap
link set dev vnet$i address fe:54:00:00:00:0$i
address add 198.18.$i.1/24 dev vnet$i
link set dev vnet$i up
BATCH
}

cables=()

# Host I is a guest by now: it has a tap, the switch has another, and a process carries what they send.
guest() {
    local -r i=$1
    lab_do kill "h$i" -KILL
    on sw ip link del "p$i"
    tap_of "$i"
    on "h$i" ip -batch - <<BATCH
tuntap add dev eth0 mode tap
address add 198.18.$i.2/24 dev eth0
link set dev eth0 up
route add default via 198.18.$i.1
BATCH
    "$root/tests/support/tap_cable" "/run/netns/$(netns_of sw)" "vnet$i" "/run/netns/$(netns_of "h$i")" eth0 \
        </dev/null >/dev/null 2>"$scratch/cable$i.err" 9>&- &
    cables+=($!)
    lab_do restart "h$i"
}

# now_by PORT: the switch has moved a channel of h1 there.
now_by() {
    grep -q "channel 198.18.1.2:[0-9]*: its route has changed; now by $1\$" "$ASK_LAB_DIR/$name/logs/sw.log"
}

taps() {
    local -r dir=$scratch/taps
    local i before
    lab_up --hosts 3 --config-switch <(printf 'ports = ["vnet*", "p2"]\n')
    for i in 1 3; do guest "$i"; done
    for i in 1 3; do wait_for 10 attached "vnet$i"; done
    port_is vnet1 '.mode == "native"' || fail "vnet1 is not native: $(on sw askctl status --json)"
    make_input "$dir" --seed 98 --senders 2 --tuples 40000 --keys 3000
    FEED=around_the_gap start_task "$dir" taps h3 "" "--merge-window 0"
    wait_for 20 sent_at_least 1000
    before=$(on sw ip -json link show dev vnet1 | jq '.[0].ifindex')
    on sw ip link del dev vnet1
    wait_for 10 lacks vnet1
    tap_of 1
    wait_for 10 attached vnet1
    [[ $(on sw ip -json link show dev vnet1 | jq '.[0].ifindex') != "$before" ]] || fail "vnet1 is the tap that it was"
    touch "$scratch/back"
    finish_task "$dir"
    added_up "$dir"
    now_by vnet1 || fail "the channel of h1 has not moved: $(on sw askctl status)"
    [[ ! -s $scratch/cable1.err ]] || fail "$(cat "$scratch/cable1.err")"
    kill "${cables[@]}"
    wait "${cables[@]}" || true # by that signal
    pass "taps as ports; one that is deleted and made again in mid-task loses nothing"
}

ways() {
    local -r dir=$scratch/ways
    lab_up --hosts 3
    # All but control traffic would leave by the other way.
    on h1 ip -batch - <<'BATCH'
link add dev eth9 type veth peer name eth8
link set dev eth8 up
address add 198.18.77.2/24 dev eth9
link set dev eth9 up
rule add ipproto tcp lookup 100
route add default via 198.18.1.1 table 100
route replace default nexthop via 198.18.77.1 dev eth9 weight 200 nexthop via 198.18.1.1 dev eth0 weight 1
BATCH
    [[ $(on h1 ip -json route get 198.18.3.2 | jq -r '.[0].dev') == eth9 ]] || fail "the kernel would not leave by eth9"
    make_input "$dir" --seed 92 --senders 2 --tuples 20000 --keys 1500
    SENDER_HOST=h1 run_task "$dir" ways h3 "" "--merge-window 0"
    jq -e '.tuples_switch > 0' "$dir/recv.json" >/dev/null || fail "nothing was added up by the switch"
    pass "a host with several ways out sends by its agent's interface"

    on h1 ip route replace default via 198.18.77.1 dev eth9
    receive none astray --senders 1
    spawn "$scratch/astray" h1 ask-send --task astray --to h3 --deadline 20 "$dir/in1.tsv" </dev/null
    expect "$scratch/astray" "[0-9]+" "no route to 198.18.3.2 leads through eth0: add one" "$spawned"
    exit_of "$receiver"
    pass "a host that has no way by its agent's interface is told so"
}

# h3 says that it has the MAC of h1, in frames to nobody, as fast as it can until $scratch/enough is there.
forge_mac() {
    rm -f "$scratch/enough"
    spawn "$scratch/forger" h3 python3 - "$(mac_of h1 eth0)" "$scratch/enough" <<'FORGER'
import errno, os, socket, sys, time
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind(("eth0", 0))
    frame = bytes.fromhex("02000000beef") + bytes.fromhex(sys.argv[1].replace(":", "")) + b"\x88\xb5" + bytes(46)
    while not os.path.exists(sys.argv[2]):
        for _ in range(100):
            try:
                raw.send(frame)
            except OSError as error:  # what the switch's end has no room for is lost, as on any link
                if error.errno != errno.ENOBUFS:
                    raise
        time.sleep(0.001)  # ten thousand and more a second, beside the task
FORGER
    forger_pid=$spawned
}

no_more_forging() {
    touch "$scratch/enough"
    exit_of "$forger_pid"
    ((code == 0)) || fail "the forger ended with $code: $(cat "$scratch/forger.err")"
}

is_learned_at() { on sw bridge -json fdb show br br0 | jq -e --arg mac "$(mac_of h1 eth0)" --arg port "$1" 'any(.[]; .mac == $mac and .ifname == $port)' >/dev/null; }

# A host on another port that forges a MAC gets what a bridge sends there, as on any bridge; no answer is wrong for it, and
# where the bridge is told who is where it gets nothing.
forged() {
    local -r dir=$1
    local pid who
    forge_mac
    wait_for 10 is_learned_at p3
    start_task "$dir" forged h2 "--deadline 4" "--merge-window 0 --deadline 4"
    while read -r pid who; do
        exit_of "$pid"
    done <"$dir/pids"
    [[ ! -s $dir/recv.out ]] || cmp -s "$dir/recv.out" "$dir/expected.tsv" || fail "forged: a wrong answer"
    on sw bridge link set dev p1 learning off
    on sw bridge link set dev p3 learning off
    on sw bridge fdb replace "$(mac_of h1 eth0)" dev p1 master static
    on sw bridge fdb replace "$(mac_of h3 eth0)" dev p3 master static
    wait_for 10 is_learned_at p1
    run_task "$dir" told h2 "" "--merge-window 0"
    added_up "$dir"
    no_more_forging
    pass "a host that forges another's MAC on a bridge"
}

bridge() {
    local -r dir=$scratch/bridge
    lab_up --hosts 3 --bridge --config-switch <(printf 'ports = ["p*"]\n')
    port_is p1 '.bridge == "br0"' || fail "p1 is on no bridge: $(on sw askctl status --json)"
    make_input "$dir" --seed 93 --senders 3 --tuples 30000 --keys 400
    run_task "$dir" bridge h2 "" "--merge-window 0"
    added_up "$dir"
    switch_counts up_bridge || fail "nothing went up to the bridge"
    ! switch_counts up_no_route || fail "the bridge's packets were looked up as a router's"
    pass "on a bridge that routes nothing"
    forged "$dir"

    if on sw ip link set br0 type bridge vlan_filtering 1 2>/dev/null; then
        filters_vlans "$dir"
    else
        kernel_lacks "bridges that filter VLANs"
    fi
}

# h1 is behind a box of its own, as a guest behind the bridge of its hypervisor, whose ways to ours are by port w1, and by w2, which is
# down.
behind_a_box() {
    local i
    ip netns add "$elsewhere"
    ip -netns "$elsewhere" link add bx type bridge mcast_snooping 0
    for i in 1 2; do
        on sw ip link add "w$i" type veth peer name "u$i" netns "$elsewhere"
        on sw ethtool -K "w$i" tx off txvlan off gro off >/dev/null
        ip netns exec "$elsewhere" ethtool -K "u$i" tx off txvlan off gro off >/dev/null
        ip -netns "$elsewhere" link set dev "u$i" master bx
        ip -netns "$elsewhere" link set dev "u$i" xdpdrv obj "$build/bpf/pass.bpf.o" sec xdp
        on sw ip link set dev "w$i" master br0
        on sw ip link set dev "w$i" up
    done
    on sw ip link set p1 netns "$elsewhere"
    ip -netns "$elsewhere" -batch - <<'BATCH'
link set dev p1 master bx
link set dev p1 up
link set dev u1 up
link set dev bx up
BATCH
    wait_for 10 attached w1
    wait_for 10 attached w2
}

# h1 says where it is, as a hypervisor says of a guest that has arrived.
announce() {
    on h1 python3 - "$(mac_of h1 eth0)" <<'HERE'
import socket, sys
mac = bytes.fromhex(sys.argv[1].replace(":", ""))
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind(("eth0", 0))
    # RARP, by which qemu does
    raw.send(b"\xff" * 6 + mac + bytes.fromhex("8035000108000604 0003") + mac + bytes(4) + mac + bytes(22))
HERE
}

# announced_at PORT: as often as need be, as hypervisors do: a port of a bridge takes nothing until the bridge has heard that it is up.
announced_at() {
    announce
    is_learned_at "$1"
}

# station_moves: to w2, once the task has begun.
station_moves() {
    wait_for 20 sent_at_least 1000
    wait_for 10 is_learned_at w1
    ip -netns "$elsewhere" link set dev u1 down
    ip -netns "$elsewhere" link set dev u2 up
    wait_for 10 announced_at w2
    touch "$scratch/back"
}

# Two of IPv4, of which one moves from one port of the bridge to another while its task runs, and two of IPv6.
moves() {
    local -r dir=$scratch/moves six=$scratch/six
    lab_up --hosts 4 --bridge --ipv6-from 3 --config-switch <(printf 'ports = ["p*", "w*"]\n')
    make_input "$six" --seed 100 --senders 2 --tuples 20000 --keys 1500
    SENDER_HOST=h3 run_task "$six" six h4 "" "--merge-window 0"
    all_added_up "$six"
    switch_counts up_bridge || fail "nothing went up to the bridge"
    ! switch_counts up_no_route || fail "the bridge's packets were looked up as a router's"
    pass "hosts of IPv6 on a bridge"

    behind_a_box
    make_input "$dir" --seed 101 --senders 2 --tuples 40000 --keys 3000
    SENDER_HOST=h1 FEED=around_the_gap start_task "$dir" moves h2 "" "--merge-window 0"
    station_moves
    finish_task "$dir"
    all_added_up "$dir"
    now_by w2 || fail "the channel of h1 has not moved: $(on sw askctl status)"
    pass "a station that moves to another port of a bridge in mid-task takes its channels along"
}

# all_added_up DIR: the switch has, for each sender.
all_added_up() {
    jq -e 'all(.senders[]; .tuples_switch > 0)' "$1/recv.json" >/dev/null ||
        fail "the switch did not add up for each sender: $(jq -c '[.senders[] | {name, tuples_in, tuples_switch}]' "$1/recv.json")"
}

# What a host is behind is asked of the bridge's database of the VLAN in which the box knows it: the one of frames without a
# tag, or of a VLAN on the bridge.
filters_vlans() {
    local -r dir=$1
    on sw bridge link set dev p1 learning on
    on sw bridge link set dev p3 learning on
    wait_for 10 attached p1
    run_task "$dir" filters h2 "" "--merge-window 0"
    added_up "$dir"
    pass "on a bridge that filters VLANs"

    into_vlan_20
    run_task "$dir" twenty h2 "" "--merge-window 0"
    added_up "$dir"
    pass "in a VLAN of such a bridge, where the box has an address"
    twins "$dir"
    tagged_host "$dir"
    named_soon p1 "which filters VLANs by tags of 802.1ad" ip link set br0 type bridge vlan_protocol 802.1ad
    on sw ip link set br0 type bridge vlan_protocol 802.1Q
    wait_for 10 attached p1
    pass "a bridge that filters VLANs of providers is refused by name, after $slowest ms"
}

# All hosts, and the addresses of the box.
into_vlan_20() {
    local i
    {
        echo "link add link br0 name br0.20 type vlan id 20"
        echo "address flush dev br0"
        for i in 1 2 3; do echo "address add 198.18.$i.1/16 dev br0.20"; done
        echo "link set dev br0.20 up"
    } | on sw ip -batch -
    on sw bridge vlan add dev br0 vid 20 self
    for i in 1 2 3; do on sw bridge vlan add dev "p$i" vid 20 pvid untagged; done
    wait_for 20 answers_control h1
    wait_for 20 answers_control h2
    wait_for 20 answers_control h3
}

# The switch, from there.
answers_control() {
    on "$1" bash -c ": </dev/tcp/198.18.${1#h}.1/4792" 2>/dev/null
}

# A station of another VLAN has the MAC of h1: the databases are two.
twins() {
    local -r dir=$1
    on sw bridge fdb del "$(mac_of h1 eth0)" dev p1 master 2>/dev/null || true # static where it was told, or learned
    on sw bridge fdb add "$(mac_of h1 eth0)" dev p1 master static vlan 20
    on sw bridge fdb replace "$(mac_of h1 eth0)" dev p3 master static vlan 1
    SENDER_HOST=h1 run_task "$dir" twins h2 "" "--merge-window 0"
    jq -e 'all(.senders[]; .tuples_switch > 0)' "$dir/recv.json" >/dev/null || fail "the switch took h1 to be elsewhere"
    pass "a station with the same MAC in another VLAN is another"
}

# h2 has that VLAN by a tag: it may receive, and is told by name why it may not send.
tagged_host() {
    local -r dir=$1
    on sw bridge vlan add dev p2 vid 20
    on h2 ip -batch - <<'BATCH'
address flush dev eth0
link add link eth0 name eth0.20 type vlan id 20
address add 198.18.2.2/16 dev eth0.20
link set dev eth0.20 up
BATCH
    sed -i -e '1i xdp_mode = "generic"' -e 's/^interface = .*/interface = "eth0.20"/' "$ASK_LAB_DIR/$name/conf/h2.toml"
    lab_do restart h2
    SENDER_HOST=h1 run_task "$dir" to-tagged h2 "" "--merge-window 0"
    jq -e 'all(.senders[]; .tuples_switch > 0)' "$dir/recv.json" >/dev/null || fail "the switch did not add up for h2"
    receive none tagged --senders 1
    spawn "$scratch/tagged" h2 ask-send --task tagged --to h3 --deadline 20 "$dir/in1.tsv" </dev/null
    expect "$scratch/tagged" "[0-9]+" "bridge br0, VLAN 20, has it by port p2 with a tag.*bridge vlan add dev p2 vid 20 pvid untagged" "$spawned"
    exit_of "$receiver"
    pass "a host with a tag receives, and is refused by name as a sender"
}

has_vlans() {
    unshare --net bash -euc 'ip link add try0 type veth peer name try1
        ip link add link try0 name try0.9 type vlan id 9' 2>/dev/null
}

# h1 and h2 are taken off the switch and put on a box that has each in a VLAN of its own, on one cable to the switch, t0.
trunk() {
    local i
    ip netns add "$elsewhere"
    on sw ip link add t0 type veth peer name t1 netns "$elsewhere"
    # What of a tag is kept beside the frame, XDP does not see.
    on sw ethtool -K t0 tx off txvlan off rxvlan off gro off >/dev/null
    ip netns exec "$elsewhere" ethtool -K t1 tx off txvlan off gro off >/dev/null
    ip -netns "$elsewhere" link set dev t1 up xdpdrv obj "$build/bpf/pass.bpf.o" sec xdp
    on sw ip link set dev t0 up
    for i in 1 2; do
        on sw ip link set "p$i" netns "$elsewhere"
        ip -netns "$elsewhere" -batch - <<BATCH
link add br$i type bridge
link add link t1 name t1.${i}00 type vlan id ${i}00
link set dev t1.${i}00 master br$i up
link set dev p$i master br$i up
link set dev br$i up
BATCH
        on sw ip -batch - <<BATCH
link add link t0 name t0.${i}00 type vlan id ${i}00
address add 198.18.$i.1/24 dev t0.${i}00
link set dev t0.${i}00 up
BATCH
        wait_for 10 attached "t0.${i}00"
    done
}

vlans() {
    local -r dir=$scratch/vlans
    if ! has_vlans; then
        kernel_lacks VLANs
        exit 0
    fi
    lab_up --hosts 3 --config-switch <(printf 'ports = ["t0*", "p[0-9]"]\n')
    trunk
    make_input "$dir" --seed 96 --senders 3 --tuples 20000 --keys 1500
    run_task "$dir" out h3 "" "--merge-window 0"
    added_up "$dir"
    pass "from two VLANs of one port to a port without"
    run_task "$dir" in h2 "" "--merge-window 0"
    added_up "$dir"
    ! switch_counts bad_port || fail "packets came by another port than the switch thought"
    pass "from a VLAN, and a port without, to another VLAN of the same port"
    add_up beside
    pass "a group with members in VLANs"

    named_soon t0.100 "takes tags off before XDP sees them: ethtool -K t0 rxvlan off" ethtool -K t0 rxvlan on
    on sw ethtool -K t0 rxvlan off >/dev/null
    wait_for 10 attached t0.100
    on sw ip link add link p3 name p3.7 type vlan id 7 protocol 802.1ad
    named_soon p7 "802.1ad" ip link set dev p3.7 name p7
    on sw ip link del p7
    on sw ip link del t0.200
    wait_for 10 lacks t0.200
    pass "a port that takes tags off, and tags of providers, are refused by name, after $slowest ms at most; a VLAN that goes is forgotten"
}

counts() {
    on "$1" askctl counters --json | jq -e --arg name "$2" 'any(.[]; .name == $name and (.value | tonumber) > 0)' >/dev/null
}

# A connection from h1 to h3 until $scratch/enough is there; it says what its segments hold, and that all came as it was.
plain_tcp() {
    spawn "$scratch/sink" h3 python3 - <<'SINK'
import hashlib, socket
with socket.create_server(("198.18.3.2", 7777)) as server:
    connection = server.accept()[0]
    digest = hashlib.sha256()
    while piece := connection.recv(1 << 20):
        digest.update(piece)
    connection.sendall(digest.hexdigest().encode())
SINK
    wait_for 10 listens h3
    spawn "$scratch/source" h1 python3 - "$scratch/enough" <<'SOURCE'
import hashlib, os, socket, sys, time
with socket.create_connection(("198.18.3.2", 7777)) as connection:
    digest, sent, piece = hashlib.sha256(), 0, os.urandom(1 << 18)
    while sent < 1 << 23 or not os.path.exists(sys.argv[1]):
        connection.sendall(piece)
        digest.update(piece)
        sent += len(piece)
        time.sleep(0.01)  # beside the task, not in its place
    print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(64).decode() == digest.hexdigest(), "other bytes came than were sent"
SOURCE
    source_pid=$spawned
}

listens() {
    [[ -n $(on "$1" ss -Htnl 'sport = 7777') ]]
}

no_long_ones() {
    ! counts sw bad_fragments || fail "the switch dropped packets for their length"
    ! counts "$1" host_drop_too_long || fail "$1 dropped packets for their length"
}

# packets_of DIR: of all senders.
packets_of() {
    jq -s 'map(.packets_sent) | add' "$1"/send*.json
}

jumbo() {
    local -r dir=$scratch/jumbo
    local host
    lab_up --hosts 3 --mtu 9000
    port_is p1 '.mtu == 9000 and .mode == "native"' || fail "p1 is not native at MTU 9000: $(on sw askctl status --json)"
    make_input "$dir" --seed 94 --senders 3 --tuples 30000 --keys 2500
    plain_tcp
    run_task "$dir" jumbo h3 "" "--merge-window 0"
    touch "$scratch/enough"
    exit_of "$source_pid"
    ((code == 0)) || fail "plain TCP ended with $code: $(cat "$scratch/source.err")"
    # 9000 less IPv4, TCP and a timestamp.
    [[ $(cat "$scratch/source.out") == 8948 ]] || fail "segments of $(cat "$scratch/source.out") bytes"
    added_up "$dir"
    no_long_ones h3
    pass "MTU 9000: exact, in $(packets_of "$dir") packets, and plain TCP of 8948 bytes a segment beside it"

    # What is said to be ASK's, and is longer than any packet of it.
    on h1 bash -c 'head -c 8000 /dev/zero | dd bs=8000 iflag=fullblock status=none >/dev/udp/198.18.3.2/4790'
    wait_for 10 counts h3 host_drop_too_long
    pass "what claims to be ASK's and is too long for it is dropped by name"

    for host in h1 h2 h3; do
        on "$host" ip link set dev eth0 mtu 1500
        lab_do restart "$host"
    done
    run_task "$dir" mixed h3 "" "--merge-window 0"
    added_up "$dir"
    no_long_ones h3
    pass "hosts at MTU 1500 behind ports at 9000, in $(packets_of "$dir") packets"
}

# What a host's interface has sent so far.
sent_by() {
    on "$1" ip -json -stats link show dev "$2" | jq '.[0].stats64.tx.packets'
}

mac_of() {
    on "$1" ip -json link show dev "$2" | jq -r '.[0].address'
}

# The interface by which the host's packets to h3 leave.
way_of() {
    on "$1" ip -json route get 198.18.3.2 | jq -r '.[0].dev'
}

# The cable by which h1 sends, and one of the receiver's, while a task is under way.
without_cables() {
    local -r half=$(($(wc -l <"$1") / 2))
    head -n "$half" "$1"
    wait_for 30 test -e "$scratch/cut"
    tail -n +$((half + 1)) "$1"
}

# multiples N: 0, N, 2N ... as int64.
multiples() {
    perl -e 'print pack("q<*", map { $_ * $ARGV[0] } 0 .. 19999)' "$1"
}

# add_up GROUP OPTION... : of all three hosts, each with multiples of its own.
add_up() {
    local -r group=$1
    shift
    local -a members=()
    local rank
    for rank in 0 1 2; do
        multiples $((rank + 1)) >"$scratch/values$rank"
        spawn "$scratch/$group$rank" "h$((rank + 1))" ask-allreduce --group "$group" --rank "$rank" --size 3 --root h3 "$@" \
            "$scratch/values$rank" </dev/null
        members+=("$spawned")
    done
    for rank in 0 1 2; do
        exit_of "${members[rank]}"
        ((code == 0)) || fail "group $group: rank $rank ended with $code: $(cat "$scratch/$group$rank.err")"
        cmp -s "$scratch/$group$rank.out" <(multiples 6) || fail "group $group: rank $rank has another sum"
    done
}

leaves_by_another() { [[ $(way_of h1) != "$1" ]]; }

interfaces() {
    local -r dir=$scratch/interfaces
    local before eth
    lab_up --hosts 3 --interfaces 2
    on h1 askctl status --json | jq -e '.interfaces == ["eth0", "eth1"]' >/dev/null || fail "h1: $(on h1 askctl status --json)"
    # h1 by the second, h2 by the first, h3 as the kernel likes.
    on h1 ip route add 198.18.3.2/32 src 198.18.1.2 via 198.19.1.1 dev eth1
    on h2 ip route add 198.18.3.2/32 src 198.18.2.2 via 198.18.2.1 dev eth0
    make_input "$dir" --seed 95 --senders 3 --tuples 40000 --keys 2500
    before=$(sent_by h1 eth1)
    run_task "$dir" both h3 "" "--merge-window 0"
    added_up "$dir"
    (($(sent_by h1 eth1) - before > 500)) || fail "h1 sent $(($(sent_by h1 eth1) - before)) packets by eth1"
    pass "a host with two interfaces sends by the one that its route says, and receives by both"

    # Its collector reaches one member by either: alone, and beside the switch.
    on h3 ip route add 198.18.1.2/32 src 198.18.3.2 via 198.19.3.1 dev eth1
    on h3 ip route add 198.18.2.2/32 src 198.18.3.2 via 198.18.3.1 dev eth0
    add_up alone --no-switch
    add_up beside
    on h3 ip route del 198.18.1.2/32
    on h3 ip route del 198.18.2.2/32
    pass "a group whose collector reaches its members by two interfaces"

    on h1 ip route del 198.18.3.2/32
    on h2 ip route del 198.18.3.2/32
    FEED=without_cables start_task "$dir" cut h3 "" "--merge-window 0"
    wait_for 20 sent_at_least 1000
    eth=$(way_of h1)
    on sw ip link set dev "$([[ $eth == eth0 ]] && echo p1 || echo q1)" down
    on sw ip link set dev p3 down
    # The kernel tells the other end of a cable a while later.
    wait_for 5 leaves_by_another "$eth"
    touch "$scratch/cut"
    finish_task "$dir"
    added_up "$dir"
    pass "a cable that is pulled out in mid-task, at a sender and at the receiver: by the other"

    local -r own=$(mac_of h2 eth1)
    on h2 ip link set dev eth1 address "$(mac_of h2 eth0)"
    # It ends with an error: which, is what is looked at.
    on h2 "$build/bin/ask-agentd" --config "$ASK_LAB_DIR/$name/conf/h2.toml" --socket "$scratch/h2" >"$scratch/same" 2>&1 || true
    grep -q 'interfaces eth0 and eth1 have one Ethernet address' "$scratch/same" || fail "of one Ethernet address: $(cat "$scratch/same")"
    on h2 ip link set dev eth1 address "$own"
    pass "interfaces that cannot be told apart are refused by name"
}

"$case"
wait_for 20 no_tasks h1 h2 h3 sw
