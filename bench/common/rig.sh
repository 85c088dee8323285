# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Where a bench that feeds the switch program itself runs (bench/common/rig.h).

# in_rig BPFFS COMMAND...: in namespaces of its own, so that ports, routes and bpffs are gone when it ends, however it
# ends. Gets --bpffs BPFFS behind its arguments.
in_rig() {
    # shellcheck disable=SC2016 # expanded inside
    unshare --net --mount --propagation private bash -euo pipefail -c '
        bpffs=$1
        shift
        mkdir -p "$bpffs"
        mount -t bpf ask-bench "$bpffs"
        ip link set lo up
        ip link add idle type veth peer name idle-peer
        for i in 1 2; do
            ip link add "p$i" address "02:00:00:00:00:0$i" type veth peer name "h$i"
            ip addr add "198.18.$i.1/24" dev "p$i"
            ip link set "p$i" up
            ip link set "h$i" up
            ip neigh replace "198.18.$i.2" lladdr "02:00:00:00:01:0$i" dev "p$i" nud permanent
        done
        echo 1 >/proc/sys/net/ipv4/ip_forward
        exec "$@" --bpffs "$bpffs"
    ' _ "$@"
}
