# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests of ask.torch share: workers in a lab of four hosts, one each. Source it, then lab_up.
#
# root, build, scratch, spawned and code are lib.sh's.
# shellcheck disable=SC2154

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly workers=4
# Of links: a step of the training takes a tenth of a second or more, so that what is done to it comes in the middle.
# shellcheck disable=SC2034 # for lab_up
readonly rate=40M
# Of the store: another for each run, since a port that was listened at is not free at once.
port=29500

# start_workers DIR SCRIPT ARGUMENT... : a worker on each of h1 .. h4, of which h1 has the store. RESULT in an argument is
# the worker's own file. Their processes go to $pids.
start_workers() {
    local -r dir=$1
    local rank
    shift
    mkdir -p "$dir"
    port=$((port + 1))
    pids=()
    for ((rank = 0; rank < workers; rank++)); do
        spawn "$dir/w$rank" "h$((rank + 1))" env PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
            ASK_LIBRARY="$build/lib/ask/libask.so.0" OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 RANK="$rank" \
            WORLD_SIZE="$workers" MASTER_ADDR=198.18.1.2 MASTER_PORT="$port" \
            /usr/bin/python3 "${@//RESULT/$dir/result$rank}" </dev/null
        pids+=("$spawned")
    done
}

# finish_workers DIR: all succeed.
finish_workers() {
    local -r dir=$1
    local rank
    for ((rank = 0; rank < workers; rank++)); do
        exit_of "${pids[rank]}"
        ((code == 0)) || fail "$dir: rank $rank ended with $code: $(tail -n 30 "$dir"/w?.err)"
    done
}

run_workers() {
    start_workers "$@"
    finish_workers "$1"
}

# still_work: no worker has ended, so what was done was done in the middle.
still_work() {
    local pid
    for pid in "${pids[@]}"; do
        kill -0 "$pid" 2>/dev/null || fail "a worker had ended before: the test came too late"
    done
}

# steps_done DIR WAY STEP: rank 0 has gone so far.
steps_done() {
    grep -q "^$2 $3 " "$1/w0.out"
}

# begin NAME: a training by the backend, in the middle; sets $dir.
begin() {
    dir=$scratch/$1
    # shellcheck disable=SC2154 # the test's
    start_workers "$dir" "$root/examples/torch/train.py" --steps "$steps" --deadline "${DEADLINE:-30}" --result RESULT
    wait_for 60 steps_done "$dir" ask 5
    still_work
}

# all_alike DIR: all ranks have come to the same.
all_alike() {
    local rank
    for ((rank = 1; rank < workers; rank++)); do
        cmp "$1/result0" "$1/result$rank" || fail "$1: ranks 0 and $rank differ"
    done
}

# column FILE WAY
column() {
    sed -n "s/^$2 //p" "$1"
}
