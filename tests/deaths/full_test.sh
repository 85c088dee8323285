#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that can be full: the agent's memory for results, shared memory, descriptors, threads, disks. Each gives a
# plain error, takes nobody else with it, and leaves nothing.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# limit NODE RESOURCE VALUE: of the node's daemon, by prlimit.
limit() {
    prlimit --pid "$(awk '{ print $1 }' "$ASK_LAB_DIR/$name/pids/$1")" "--$2=$3"
}

# fails ID CODE TEXT: a task of that id cannot be received.
fails() {
    spawn "$scratch/$1" h3 ask-recv --task "$1" --senders 1 --geometry default --aggregators 64 \
        --deadline 5 </dev/null
    ends_in 20 "$spawned"
    expect "$scratch/$1" "$2" "$3" "$spawned"
}

budget_full() {
    dir=$scratch/budget
    make_input "$dir" --seed 71 --senders 1 --tuples 200000 --keys 150000
    receive budget-recv budget --senders 1 --no-switch
    spawn "$scratch/budget" h2 ask-send --task budget --to h3 "$dir/in1.tsv" </dev/null
    ends_in 30 "$receiver" "$spawned"
    expect "$scratch/budget-recv" 9 'table_limit_mib' "$receiver"
    expect "$scratch/budget" 9 'receiver h3: .*table_limit_mib' "$spawned"
    nothing_left "the agent's memory for results is full"
}

# What the switch holds for the result is too much for it: said while the input is still open, not when all is sent.
budget_full_at_the_switch() {
    local pid
    dir=$scratch/early
    make_input "$dir" --seed 72 --senders 1 --tuples 300000 --keys 300000 --key-form short
    receive early-recv early --senders 1 --geometry default --aggregators 64
    hold early h2 early --merge-window 0
    # Nobody may read all of it.
    cat "$dir/in1.tsv" >&9 &
    ends_in 30 "$receiver" "$sender"
    for pid in $(jobs -pr); do kill "$pid"; done
    exec 9>&-
    expect "$scratch/early-recv" 9 'switch .* has at least [0-9]+ keys for the result already: .*table_limit_mib' "$receiver"
    expect "$scratch/early" 9 'receiver h3: .*table_limit_mib' "$sender"
    nothing_left "what the switch holds is more than the agent's memory for results"
}

# limit_for NODE SPARE: below which so many numbers are free for descriptors of the node's daemon.
limit_for() {
    local -r pid=$(awk '{ print $1 }' "$ASK_LAB_DIR/$name/pids/$1")
    find "/proc/$pid/fd" -mindepth 1 -printf '%f\n' | awk -v spare="$2" '
        { open[$1] = 1 }
        END { for (n = 0; spare >= 0; n++) if (!(n in open)) spare--; print n - 1 }'
}

# descriptors_full NODE SPARE: room for so many more descriptors; a task needs more.
descriptors_full() {
    local -r node=$1
    limit "$node" nofile "$(limit_for "$node" "$2"):"
    fails "files-$node" 9 'Too many open files'
    limit "$node" nofile 4096:
    still_works
    nothing_left "descriptors of $node are used up" 20
}

# The address space has room for what is there and a little: no thread, no table. AddressSanitizer reserves terabytes of
# it, and ends a program that gets no more.
memory_full() {
    if grep -q '^ASK_SANITIZE:[A-Z]*=.*\(address\|thread\)' "$build/CMakeCache.txt"; then
        pass "(left out: memory that is full, which this build's sanitizer does not survive)"
        return
    fi
    local -r pid=$(awk '{ print $1 }' "$ASK_LAB_DIR/$name/pids/h3")
    local -r used=$(awk '/^VmSize/ { printf "%.0f", $2 * 1024 }' "/proc/$pid/status")
    local -a receivers=()
    local refused=0 i
    stream_task before before 10000
    limit h3 as "$((used + (2 << 20))):"
    # The first of them may find what earlier threads have left; then there is nothing.
    for i in {1..8}; do
        spawn "$scratch/memory$i" h3 ask-recv --task "memory$i" --senders 1 --deadline 3 \
            --geometry default --aggregators 64 </dev/null
        receivers+=("$spawned")
    done
    ends_in 20 "${receivers[@]}"
    for i in {1..8}; do
        exit_of "${receivers[i - 1]}"
        ((code == 9 || code == 10)) || fail "without memory a task ended with $code: $(cat "$scratch/memory$i.err")"
        ((code == 10)) || { grep -qE 'memory|thread' "$scratch/memory$i.err" && refused=$((refused + 1)); } ||
            fail "without memory a task ended so: $(cat "$scratch/memory$i.err")"
    done
    ((refused > 0)) || fail "there was memory for all"
    limit h3 as unlimited:
    feed 10001 30000
    exec 9>&-
    exact before
    [[ -e /proc/$pid ]] || fail "the agent died of it"
    still_works
    nothing_left "memory is full: one task is refused, another goes on"
}

disks_full() {
    dir=$scratch/disk
    make_input "$dir" --seed 73 --senders 1 --tuples 1000 --keys 100
    mkdir "$scratch/small"
    mount -t tmpfs -o size=4k ask-e2e-full "$scratch/small"
    : >"$scratch/small/taken"
    spawn "$scratch/stats" h3 ask-recv --task stats --senders 1 --stats "$scratch/small/stats.json" </dev/null
    receiver=$spawned
    wait_for 10 opened h3 stats
    head -c 4096 /dev/zero >"$scratch/small/taken"
    on h2 ask-send --task stats --to h3 "$dir/in1.tsv" </dev/null || fail "the send failed though its task is whole"
    exit_of "$receiver"
    ((code == 9)) || fail "a full disk ended ask-recv with $code: $(cat "$scratch/stats.err")"
    grep -q "statistics file $scratch/small/stats.json: .*No space left" "$scratch/stats.err" ||
        fail "a full disk gave: $(cat "$scratch/stats.err")"
    cmp -s "$scratch/stats.out" "$dir/expected.tsv" || fail "the result went with its statistics"
    [[ $(ls "$scratch/small") == taken ]] || fail "left on the full disk: $(ls "$scratch/small")"
    umount "$scratch/small"
    nothing_left "no room for statistics: the result is there, and the error says what is not"
}

# Each daemon's log goes to a device that is always full.
logs_full() {
    local node
    for node in sw h2 h3; do
        mv "$ASK_LAB_DIR/$name/logs/$node.log" "$scratch/$node.log"
        ln -s /dev/full "$ASK_LAB_DIR/$name/logs/$node.log"
        lab_do restart "$node"
    done
    warm_up
    snapshot
    stream_task logs logs 10000
    feed 10001 30000
    exec 9>&-
    exact logs
    still_works
    nothing_left "daemons whose logs have no room go on"
    for node in sw h2 h3; do mv "$scratch/$node.log" "$ASK_LAB_DIR/$name/logs/$node.log"; done
}

on_exit() {
    umount "$scratch/small" 2>/dev/null || true
}

printf 'table_limit_mib = 8\n' >"$scratch/budget.toml"
deaths_lab --hosts 3 --config-agent "$scratch/budget.toml"
budget_full
budget_full_at_the_switch
# The application's connection, so that it can be told.
descriptors_full h3 1
descriptors_full sw 0
memory_full
disks_full
logs_full
