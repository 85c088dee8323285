# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests of libask_pmpi.so share: MPI programs in a lab, a rank a host. Source it after e2e's lib.sh and lab_up.
#
# root, build, scratch, lab and name are lib.sh's.
# shellcheck disable=SC2154

# Addresses of hosts, in the order of ranks: an array, and a file for rsh.
mpi_hosts() {
    "$lab" status --name "$name" --json |
        jq -r '.nodes[] | select(.node | startswith("h")) | "\(.address) \(.node)"' >"$scratch/hosts"
    mapfile -t mpi_addresses < <(cut -d ' ' -f 1 "$scratch/hosts")
    export ASK_MPI_LAB=$name ASK_MPI_HOSTS=$scratch/hosts
}

# mpirun_lab MPI RANKS COMMAND...: from the switch, rank r on host r + 1; with HOSTS, in turn on so many. MPI is mpich or
# openmpi. SHIM: 1 (default) with libask_pmpi.so.
mpirun_lab() {
    local -r which=$1 ranks=$2
    shift 2
    local hosts
    local -a launch preload=()
    hosts=$(IFS=, && echo "${mpi_addresses[*]:0:${HOSTS:-ranks}}")
    ((!${SHIM:-1})) || preload=(env "LD_PRELOAD=$build/pmpi/$which/libask_pmpi.so")
    case $which in
        mpich)
            launch=(mpirun.mpich -launcher rsh -launcher-exec "$root/tests/mpi/rsh" -iface p1 -hosts "$hosts" -ppn 1 -n "$ranks")
            ;;
        openmpi)
            # Without op/avx, by which Debian's Open MPI 4.1 has sums of 8 and 16 bits stop at the largest value.
            launch=(mpirun.openmpi --allow-run-as-root --host "${hosts//,/:$ranks,}:$ranks" --map-by node -np "$ranks"
                --mca plm_rsh_agent "$root/tests/mpi/rsh"
                --mca oob_tcp_if_include 198.18.0.0/16 --mca btl "tcp,self" --mca btl_tcp_if_include eth0 --mca pml ob1
                --mca mpi_yield_when_idle 1 --mca op "^avx")
            ;;
    esac
    # Each rank's agent is the one of its host, which rsh sets. MPICH's own messages go through memory, which hosts of a lab
    # share: over TCP, Debian's MPICH 4.0.2 at times does not come back from MPI_Finalize after a program that ends with
    # MPI_Reduce.
    on sw timeout --kill-after=5 "${MPI_PATIENCE:-60}" env -u ASK_AGENT UCX_TLS=posix,self "${launch[@]}" "${preload[@]}" "$@" 9>&-
}
