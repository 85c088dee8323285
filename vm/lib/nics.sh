# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A guest's network cards, all virtio-net. Wire W joins two cards of one guest, ends 1 and 2, with the MAC addresses
# 02:a5:4b:00:WW:0E: each end is a tap, a bridge joins them, and all of that is in a network namespace that the
# machine alone has. A joined card is wired to the one of another guest by a socket, and has the MAC 02:a5:4b:01:00:0E,
# E being 1 where it listens. A card on a tap that is there, of another network namespace, has 02:a5:4b:02:00:0T, T being the
# digit that the tap's name ends with; the machine is in that namespace then, and has no wires.

readonly NIC_MAC=02:a5:4b

# card NETDEV MAC QUEUES EXTRA : qemu's option for one card, without -device.
card() {
    printf 'virtio-net-pci,netdev=%s,mac=%s' "$1" "$2"
    (($3 == 1)) || printf ',mq=on,vectors=%s' $((2 * $3 + 2))
    printf '%s\n' "${4:+,$4}"
}

# nic_options WIRES QUEUES EXTRA JOIN TAP : qemu's options, one a line. JOIN is empty, SOCKET:listen or SOCKET:connect; TAP is
# empty, or its name.
nic_options() {
    local wire end netdev
    for ((wire = 1; wire <= $1; wire++)); do
        for end in 1 2; do
            netdev=w${wire}e$end
            printf '%s\n' -netdev "tap,id=$netdev,ifname=$netdev,script=no,downscript=no,vhost=off,queues=$2"
            printf '%s\n' -device "$(card "$netdev" "$(printf '%s:00:%02x:%02x' "$NIC_MAC" "$wire" "$end")" "$2" "$3")"
        done
    done
    if [[ -n $5 ]]; then
        printf '%s\n' -netdev "tap,id=tap,ifname=$5,script=no,downscript=no,vhost=off"
        printf '%s\n' -device "$(card tap "$NIC_MAC:02:00:0${5: -1}" 1 "$3")"
    fi
    [[ -n $4 ]] || return 0
    local server=off
    end=2
    if [[ $4 == *:listen ]]; then server=on end=1; fi
    printf '%s\n' -netdev "stream,id=join,server=$server,addr.type=unix,addr.path=${4%:*}"
    printf '%s\n' -device "$(card join "$NIC_MAC:01:00:0$end" 1 "$3")"
}

# wires_up WIRES QUEUES : taps and bridges, in the current network namespace.
wires_up() {
    local wire end multi=
    (($2 == 1)) || multi=multi_queue
    for ((wire = 1; wire <= $1; wire++)); do
        ip link add "w$wire" type bridge mcast_snooping 0
        for end in 1 2; do
            ip tuntap add dev "w${wire}e$end" mode tap $multi
            ip link set dev "w${wire}e$end" master "w$wire"
        done
        for end in "" e1 e2; do
            sysctl -q -w "net.ipv6.conf.w$wire$end.disable_ipv6=1"
            ip link set dev "w$wire$end" up
        done
    done
}
