# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A lab's namespaces, links and bpffs mounts. Links are created inside the namespaces, so no interface of a
# lab is ever seen, and none of the machine's own is ever touched, in the namespace that tools/lab runs in.

in_node() {
    local -r node=$1
    shift
    nsenter --net="/run/netns/$(lab_netns "$node")" -- "$@"
}

# The mark by which a namespace proves to be this lab's: the alias of its loopback.
netns_mark() {
    nsenter --net="/run/netns/$1" -- ip link show dev lo 2>/dev/null | sed -n 's/^ *alias //p'
}

# netns_verdict NAME: ours | unfinished | gone | foreign
# "unfinished" is what an `up` killed between making and marking leaves: no processes, nothing but an unused lo.
netns_verdict() {
    local -r file=/run/netns/$1
    local mark
    [[ -e $file ]] || { echo gone && return; }
    if [[ $(stat --file-system --format=%T "$file") != nsfs ]]; then
        [[ -f $file && ! -s $file ]] && echo unfinished || echo foreign
        return
    fi
    mark=$(netns_mark "$1")
    if [[ $mark == "$LAB_TOKEN" ]]; then
        echo ours
    elif [[ -z $mark && -z $(ip netns pids "$1") &&
        $(nsenter --net="$file" -- ip -json link show | jq 'length == 1 and (.[0].flags | index("UP") | not)') == true ]]; then
        echo unfinished
    else
        echo foreign
    fi
}

netns_create() {
    local name
    name=$(lab_netns "$1")
    [[ ! -e /run/netns/$name ]] ||
        die "namespace $name exists and is not this lab's: leaving it alone (ip netns del $name, if it is yours)"
    lab_record netns "$name"
    ip netns add "$name" || die "cannot make namespace $name"
    nsenter --net="/run/netns/$name" -- ip -batch - <<BATCH || die "cannot set up namespace $name"
link set dev lo alias $LAB_TOKEN
link set dev lo up
BATCH
    netns_sysctls "$1"
}

# Quiet links: nothing but what the lab's own programs send, so that interface counters can be compared.
netns_sysctls() {
    local -a settings=(
        net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
        net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0
        net.ipv6.conf.default.autoconf=0 net.ipv6.conf.default.router_solicitations=0
        net.ipv6.conf.default.addr_gen_mode=1
    )
    [[ -d /proc/sys/net/ipv6 ]] || settings=("${settings[@]:0:2}")
    [[ ${NODE_KIND[$1]} != switch ]] || settings+=(net.ipv4.ip_forward=1)
    [[ ${NODE_KIND[$1]} != switch || $LAB_IPV6 == 0 ]] || settings+=(net.ipv6.conf.all.forwarding=1)
    # A channel is a flow: where there are several ways, each channel takes one.
    ! lab_has_topology || settings+=(net.ipv4.fib_multipath_hash_policy=1)
    ((UP_INTERFACES == 1)) ||
        settings+=(net.ipv4.fib_multipath_hash_policy=1 net.ipv4.conf.all.ignore_routes_with_linkdown=1)
    in_node "$1" sysctl -q -w "${settings[@]}" || die "cannot set sysctls in $(lab_netns "$1")"
}

# link_wire I WIDTH: the pair of interfaces, or, with a fault injector in the middle, two pairs: eth0 to its h<I>, its
# s<I> to p<I>.
link_wire() {
    local -r i=$1 wide=$2
    if ((!LAB_CHAOS)); then
        in_node sw ip -batch - <<<"link add dev p$i $wide type veth peer name eth0 $wide netns $(lab_netns "h$i")"
        return
    fi
    in_node chaos ip -batch - <<BATCH || return
link add dev h$i $wide type veth peer name eth0 $wide netns $(lab_netns "h$i")
link add dev s$i $wide type veth peer name p$i $wide netns $(lab_netns sw)
link set dev h$i up
link set dev s$i up
BATCH
    interfaces_quiet chaos off "h$i" "s$i"
}

# interfaces_quiet NODE on|off INTERFACE... : XDP must see full checksums and no tags or merged frames that hardware would
# have added or split. What the injector redirects arrives at an interface without a program only if that has GRO on.
interfaces_quiet() {
    local -r node=$1
    # shellcheck disable=SC2016 # for the shell in the namespace
    in_node "$node" bash -euc 'for each in "${@:2}"; do ethtool -K "$each" tx off txvlan off gro "$1"; done' bash "${@:2}" \
        >/dev/null || die "ethtool failed on an interface of $node: ${*:3}"
}

# What waits in front of a link of a rate at most, in bytes: 10 ms of it, and not less than a few dozen packets.
link_queue() {
    local -r bytes=$(($1 / 8 / 100))
    echo $((bytes > 65536 ? bytes : 65536))
}

# links_slow_down RATE: a queue of that rate before either end. The injector keeps what waits in bounds (its `admit`); that
# of the qdisc is beyond them. A burst is two frames, or what goes in a quarter of a millisecond.
links_slow_down() {
    local -r rate=$1
    local -r burst=$((rate / 32000 > 7040 ? rate / 32000 : 7040)) room=$((2 * $(link_queue "$rate")))
    local i
    for ((i = 1; i <= $(lab_link_count); i++)); do
        printf 'qdisc add dev h%s root tbf rate %sbit burst %s limit %s\n' "$i" "$rate" "$burst" "$room"
        printf 'qdisc add dev s%s root tbf rate %sbit burst %s limit %s\n' "$i" "$rate" "$burst" "$room"
    done | in_node chaos tc -batch - || die "cannot give links a rate (is the sch_tbf module there?)"
}

lab_link_count() {
    if lab_has_topology; then wc -l <"$LAB_DIR/links"; else echo "$LAB_HOSTS"; fi
}

# bridge_net I: of host I and all others of its family.
bridge_net() {
    if has_ipv6 "$1"; then echo 48; else echo 16; fi
}

# The switch as a bridge that routes nothing. It has the addresses that its ports would have.
bridge_create() {
    local -a settings=(net.ipv4.ip_forward=0)
    local i
    ((!LAB_IPV6)) || settings+=(net.ipv6.conf.all.forwarding=0)
    {
        # An address of its own: else it has the least of its ports', another when one of these comes or goes.
        echo "link add dev br0 address 02:a5:00:00:00:01 type bridge mcast_snooping 0"
        for ((i = 1; i <= LAB_HOSTS; i++)); do echo "address add $(link_address "$i" 1)/$(bridge_net "$i") dev br0"; done
        # The kernel asks for neighbours of IPv6 from it.
        ((!LAB_IPV6)) || echo "address add fe80::1/64 dev br0 nodad"
        echo "link set dev br0 up"
    } | in_node sw ip -batch - || die "cannot make bridge br0 (is the bridge module there?)"
    in_node sw sysctl -q -w "${settings[@]}" || die "cannot set sysctls in $(lab_netns sw)"
}

# link_create I MTU QUEUES: h<I>'s eth0 to the switch's p<I>.
link_create() {
    local -r i=$1 mtu=$2 queues=$3
    local -r wide="mtu $mtu numrxqueues $queues numtxqueues $queues"
    local gro=off port="address add 198.18.$i.1/24 dev p$i" net=24 route="route add default via 198.18.$i.1"
    ((!LAB_CHAOS)) || gro=on
    # As routers announce themselves, the host's way out is a link-local address. Both ends have one: the kernel asks for
    # neighbours from it.
    ! has_ipv6 "$i" || {
        port="address add $(link_address "$i" 1)/64 dev p$i nodad"$'\n'"address add fe80::1/64 dev p$i nodad"
        net=64 route="address add fe80::2/64 dev eth0 nodad"$'\n'"route add default via fe80::1 dev eth0"
    }
    if ((UP_BRIDGE)); then
        port="link set dev p$i master br0" net=$(bridge_net "$i") route=
        ! has_ipv6 "$i" || route="address add fe80::$i:2/64 dev eth0 nodad"
    fi
    link_wire "$i" "$wide" || die "cannot make the link of h$i (is the veth module there?)"
    in_node sw ip -batch - <<BATCH || die "cannot configure p$i"
$port
link set dev p$i up
BATCH
    in_node "h$i" ip -batch - <<BATCH || die "cannot configure eth0 of h$i"
address add ${NODE_ADDRESS[h$i]}/$net dev eth0
link set dev eth0 up
$route
BATCH
    interfaces_quiet sw $gro "p$i"
    interfaces_quiet "h$i" $gro eth0
}

# second_link_create I MTU QUEUES: h<I>'s eth1 to the switch's q<I>. Host and switch share what they send each other among
# both; the host keeps the address of its eth0.
second_link_create() {
    local -r i=$1
    local -r wide="mtu $2 numrxqueues $3 numtxqueues $3"
    in_node sw ip -batch - <<BATCH || die "cannot make the second link of h$i"
link add dev q$i $wide type veth peer name eth1 $wide netns $(lab_netns "h$i")
address add 198.19.$i.1/24 dev q$i
link set dev q$i up
route add 198.18.$i.2/32 nexthop via 198.18.$i.2 dev p$i nexthop via 198.19.$i.2 dev q$i
BATCH
    in_node "h$i" ip -batch - <<BATCH || die "cannot configure eth1 of h$i"
address add 198.19.$i.2/24 dev eth1
link set dev eth1 up
route replace default src 198.18.$i.2 nexthop via 198.18.$i.1 dev eth0 nexthop via 198.19.$i.1 dev eth1
BATCH
    interfaces_quiet sw off "q$i"
    interfaces_quiet "h$i" off eth1
}

bpffs_mount() {
    local -r dir=$LAB_DIR/bpf/$1
    mkdir "$dir"
    lab_record mount "$dir"
    mount -t bpf -o mode=0755 "$LAB_TOKEN" "$dir" || die "cannot mount a bpffs at $dir (is CONFIG_BPF_SYSCALL on?)"
}

# Which namespace each name was when it proved to be ours: to ask takes processes, and `down` wants to know often.
declare -A NETNS_OURS=()

# netns_inodes NODE... : "INODE NAME" of those that are there.
netns_inodes() {
    local node
    local -a files=()
    for node; do files+=("/run/netns/$(lab_netns "$node")"); done
    ((${#files[@]} == 0)) || stat -L -c '%i %n' "${files[@]}" 2>/dev/null | sed 's:/run/netns/::'
}

netns_is_ours() {
    [[ ${NETNS_OURS[$2]-} == "$1" || $(netns_verdict "$2") == ours ]]
}

netns_prove() {
    local inode name
    while read -r inode name; do
        ! netns_is_ours "$inode" "$name" || NETNS_OURS[$name]=$inode
    done < <(netns_inodes "$@" || true)
}

# Everything that runs in the lab's namespaces, daemons or not, without this process and its ancestors.
# lab_pids NODE...
lab_pids() {
    local inode name pid=$BASHPID spare=" " ours=" "
    while ((pid > 1)); do
        spare+="$pid "
        pid=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
    done
    while read -r inode name; do
        ! netns_is_ours "$inode" "$name" || ours+="$inode "
    done < <(netns_inodes "$@" || true)
    [[ $ours != " " ]] || return 0
    while IFS=' /' read -r inode _ pid _; do
        [[ $ours != *" $inode "* || $spare == *" $pid "* ]] || printf '%s\n' "$pid"
    done < <(stat -L -c '%i %n' /proc/[0-9]*/ns/net 2>/dev/null || true)
}

lab_quiet() {
    [[ -z $(lab_pids "$@") ]]
}

# signal_nodes SIGNAL NODE...
signal_nodes() {
    local -r signal=$1
    local -a pids
    shift
    mapfile -t pids < <(lab_pids "$@")
    # A process may end by itself meanwhile.
    ((${#pids[@]} == 0)) || kill -s "$signal" -- "${pids[@]}" 2>/dev/null || true
}

# Takes away what `made` lists and what proves to be ours; keeps going on failure, because the rest must go too.
net_undo() {
    local path name source verdict failed=0
    while read -r path; do
        source=$(findmnt --noheadings --output SOURCE --mountpoint "$path" 2>/dev/null) || continue
        if [[ $source != "$LAB_TOKEN" ]]; then
            note "what is mounted at $path is not this lab's: leaving it alone (umount it, then try again)"
            failed=1
        else
            umount "$path" || { note "cannot unmount $path (who uses it: fuser -m $path)" && failed=1; }
        fi
    done < <(lab_made mount)
    while read -r name; do
        verdict=$(netns_verdict "$name")
        case $verdict in
            ours | unfinished) ip netns del "$name" || failed=1 ;;
            foreign) note "namespace $name is not the one this lab made: leaving it alone" ;;
        esac
    done < <(lab_made netns)
    return "$failed"
}
