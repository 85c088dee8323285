# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A job in a lab: commands on its nodes, side by side. Source it after common.sh, name the lab with use_lab, and call
# end_commands on the way out.

job_lab=
job_dir=
declare -A running=() # pid: node

# use_lab NAME DIR : a name of its own for this process, cut to what a lab's may be long; the commands' output in DIR.
use_lab() {
    job_lab=$1$$
    job_lab=${job_lab:0:12}
    job_dir=$2
}

lab() {
    local -r command=$1
    shift
    "$ASK_ROOT/tools/lab" "$command" --name "$job_lab" "$@"
}

# start NODE COMMAND... : in the background; its output goes to $job_dir/NODE.out, its complaints to $job_dir/NODE.err.
start() {
    local -r node=$1
    shift
    "$ASK_ROOT/tools/lab" exec --name "$job_lab" "$node" -- "$@" >"$job_dir/$node.out" 2>"$job_dir/$node.err" &
    running[$!]=$node
}

# await_commands RUN: the first command that fails ends the run, with what it said.
await_commands() {
    local pid code
    while ((${#running[@]})); do
        code=0
        wait -n -p pid "${!running[@]}" || code=$?
        ((code == 0)) || die "run '$1': ${running[$pid]} failed (exit code $code): $(<"$job_dir/${running[$pid]}.err")"
        unset "running[$pid]"
    done
}

end_commands() {
    local pid
    # Of the shell's own that still run: the number of one that has ended may be another's.
    for pid in $(jobs -pr); do [[ -z ${running[$pid]-} ]] || kill "$pid" 2>/dev/null || true; done
}
