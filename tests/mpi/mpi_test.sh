#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mpi_test.sh mpich|openmpi: programs of that MPI in a lab, with libask_pmpi.so and a rank a host. Random programs give what
# MPI alone gives, through the network; who computes long is waited for; an agent's death is an error of MPI's that names
# it; what cannot go through groups is MPI's, with the reason.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/mpi/lib.sh
source "$root/tests/mpi/lib.sh"

readonly mpi=$1
readonly random=$build/tests/ask-mpi-random-$mpi cases=$build/tests/ask-mpi-cases-$mpi
export ASK_PMPI_THRESHOLD=0 ASK_PMPI_OPS=allreduce,reduce,bcast,barrier ASK_PMPI_REPORT=$scratch/report.json

# mpi_run LOG RANKS COMMAND...: it succeeds.
mpi_run() {
    local -r log=$scratch/$1
    shift
    rm -f "$ASK_PMPI_REPORT"
    mpirun_lab "$mpi" "$@" >"$log.out" 2>"$log.err" </dev/null ||
        fail "$log ended with $?: $(tail -n 20 "$log.out" "$log.err")"
    [[ $SHIM == 0 || -s $ASK_PMPI_REPORT ]] || fail "$log has written no report"
}
export SHIM=1

# reported FILTER: jq says yes to the report.
reported() {
    jq -e "$1" "$ASK_PMPI_REPORT" >/dev/null || fail "the report does not have $1: $(cat "$ASK_PMPI_REPORT")"
}

random_programs() {
    local ranks seed=1
    for ranks in 2 4 8; do
        mpi_run "random$ranks" "$ranks" "$random" $((seed++)) 150
        # Each kind, each time; of communicators the world, its copies and halves, but not each rank's own.
        reported '[.allreduce, .reduce, .bcast, .barrier] | all(.through > 0 and .not_enabled == 0)'
        reported '.communicators.groups >= 3 and .communicators.without == 0 and .allreduce.one_rank > 0'
    done
    (($(switched) > 1000)) || fail "the switch has completed $(switched) chunks only"
    pass "random programs"
}

# Hosts with two ranks, and with three and two: MPI reduces on the host.
several_a_host() {
    HOSTS=4 mpi_run two_a_host 8 "$random" 4 150
    reported '[.allreduce, .reduce, .bcast, .barrier] | all(.through > 0 and .not_enabled == 0)'
    HOSTS=2 mpi_run uneven 5 "$random" 5 100
    # Ranks 0, 2 and 4 are a communicator, all of one host; 1 and 3 the other.
    reported '[.allreduce, .reduce, .bcast] | all(.through > 0 and .not_enabled > 0)'
    reported '.why_not | contains("on 1 hosts")'
    pass "several ranks a host"
}

# Fewer bytes than the threshold are MPI's, and kinds that were not chosen, at all ranks.
thresholds() {
    ASK_PMPI_THRESHOLD=100000 ASK_PMPI_OPS=allreduce,bcast mpi_run threshold 4 "$random" 9 100
    reported '.allreduce.below_threshold > 0 and .allreduce.through > 0 and .bcast.through > 0'
    reported '[.reduce, .barrier] | all(.through == 0 and .not_chosen > 0)'
    ASK_PMPI_THRESHOLD='' ASK_PMPI_OPS='' mpi_run defaults 4 "$random" 10 60
    reported '[.allreduce, .bcast] | all(.through > 0 and .below_threshold > 0)'
    reported '.barrier.through == 0 and .barrier.not_chosen > 0'
    pass "threshold, chosen operations"
}

fortran() {
    local module
    for module in mpi mpi_f08; do
        sed "s/use mpi\$/use $module/" "$root/tests/mpi/fortran.f90" >"$scratch/$module.f90"
        "mpifort.$mpi" -O1 "$scratch/$module.f90" -o "$scratch/fortran_$module" || fail "mpifort.$mpi cannot compile it"
        mpi_run "$module" 4 "$scratch/fortran_$module"
        reported '[.allreduce, .reduce, .bcast, .barrier] | all(.through == 4)'
    done
    pass "Fortran"
}

# Longer than agents wait for members that are not told to.
late() {
    mpi_run late 4 "$cases" late 33
    reported '.allreduce.through == 4'
    pass "a rank that computes for 33 s"
}

threads() {
    mpi_run threads 4 "$cases" threads
    reported '.allreduce.through == 1600 and .communicators.groups == 2'
    pass "two threads, two communicators"
}

# Groups of hosts that the named root is not in have another.
roots() {
    ASK_PMPI_ROOT=h2 ASK_PMPI_GROUP=roots mpi_run roots 4 "$cases" pairs
    reported '.allreduce.through == 8 and .communicators.groups == 3'
    (($(coordinated h2) == 2 && $(coordinated h3) == 1)) ||
        fail "h2 coordinated $(coordinated h2) groups, not 2, and h3 $(coordinated h3), not 1"
    pass "the root's host"
}

# coordinated HOST: how many of the groups it was the root of, by its log.
coordinated() {
    lab_do log "$1" | grep -cE "group roots-[0-9a-f]+: [0-9]+ members" || true
}

not_enabled() {
    lab_do kill h4 -KILL
    mpi_run agentless 4 "$cases" late 0
    reported '.allreduce.not_enabled == 4 and (.why_not | contains("rank 3"))'
    lab_do restart h4
    ASK_PMPI_THRESHOLD=many mpi_run badly_set 4 "$cases" late 0
    reported '.allreduce.not_enabled == 4 and (.why_not | contains("ASK_PMPI_THRESHOLD"))'
    grep -q 'ASK_PMPI_THRESHOLD must be a number' "$scratch/badly_set.err" || fail "nothing was said of ASK_PMPI_THRESHOLD"
    pass "what cannot go through is MPI's"
}

is_under_way() {
    grep -q 'under way' "$1.out"
}

# dies CASE: the agent of h3 is killed in the middle; $code is what mpirun ends with.
dies() {
    local -r log=$scratch/$1
    local job
    mpirun_lab "$mpi" 4 "$cases" "$1" >"$log.out" 2>"$log.err" </dev/null &
    job=$!
    wait_for 20 is_under_way "$log"
    lab_do kill h3 -KILL
    exit_of "$job"
    lab_do restart h3
}

death() {
    local rank
    dies until-error
    ((code == 0)) || fail "until-error ended with $code: $(cat "$scratch"/until-error.*)"
    for rank in 0 1 2 3; do
        grep -Eq "^rank $rank: .*(group|task) mpi-" "$scratch/until-error.out" ||
            fail "rank $rank was not told why: $(cat "$scratch"/until-error.*)"
    done
    grep -q '^rank 0: .*h3' "$scratch/until-error.out" || fail "rank 0 was not told who: $(cat "$scratch/until-error.out")"
    dies until-abort
    ((code != 0 && code != 124 && code != 137)) || fail "until-abort ended with $code: $(cat "$scratch"/until-abort.*)"
    grep -Eq "libask_pmpi: rank .*(group|task) mpi-" "$scratch/until-abort.err" || fail "no reason: $(cat "$scratch/until-abort.err")"
    pass "an agent's death"
}

lab_up --hosts 8
mpi_hosts
random_programs
several_a_host
thresholds
fortran
threads
late
roots
not_enabled
death
