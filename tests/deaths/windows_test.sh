#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# windows_test.sh [WINDOWS]: streams, a switch that loses all it had in mid-stream, and what so many windows (default 60) leave behind:
# nothing, on any host or the switch.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

# As a reboot does: daemon, programs, links and maps are gone.
switch_dies() {
    lab_do kill sw -KILL
    unload sw
}

# with_switch NAME: the newest window's task has memory on the switch.
with_switch() {
    on sw askctl tasks --json | jq -e --arg id "$1-w" 'any(.[]; .id | startswith($id))' >/dev/null
}

# What it had is thrown away; the windows that were open come again from what senders keep: at once, or, while it stays away, after the
# deadline.
loses_all() {
    local -a followers=()
    local host window
    open_stream lost --senders 2 --deadline 5
    for host in 1 2; do
        follow lost "h$host" "send$host" - < <(lines_until_enough lost "$host")
        followers[host]=$sender
    done
    wait_for 10 committed lost 1
    wait_for 10 with_switch lost
    switch_dies
    lab_do restart sw
    window=$(rows lost | wc -l)
    wait_for 30 committed lost $((window + 2))
    wait_for 30 with_switch lost
    switch_dies
    window=$(rows lost | wc -l)
    wait_for 30 committed lost $((window + 2))
    lab_do restart sw
    # Without a sender no window has a task: they go on until all of this is done, however long that takes.
    wait_for 30 with_switch lost
    enough lost
    for host in 1 2; do ends "${followers[host]}" 0 "lost.send$host"; done
    kill -INT "$receiver"
    ends "$receiver" 130 lost.recv
    exact lost "$(all_of lost 1)" "$(all_of lost 2)"
    ! rows lost | grep -qvE $'\t(whole|empty)\t' || fail "windows are neither whole nor empty: $(rows lost)"
    pass "a switch that loses all, twice, in mid-stream"
}

says() {
    grep -q "$2" "$scratch/$1.err"
}

# many NAME STREAMS WINDOWS: so many streams side by side, of so many windows each, with a line for each now and then.
many() {
    local -r id=$1 streams=$2 windows=$3
    local -a pipes=()
    local i pipe
    for ((i = 0; i < streams; i++)); do
        mkfifo "$scratch/$id$i.lines"
        exec {pipe}<>"$scratch/$id$i.lines"
        pipes[i]=$pipe
        open_stream "$id$i" --senders 1 --deadline 10 --aggregators 64 --finish-after "$windows" --keep 1
        follow "$id$i" "h$((i % 2 + 1))" send - <"$scratch/$id$i.lines"
    done
    while ! says "$id"0.recv 'has ended: '; do
        for pipe in "${pipes[@]}"; do printf 'key\t1\n' >&"$pipe"; done
        sleep 0.1 # the pace of a source
    done
    for ((i = 0; i < streams; i++)); do
        # By what they say: the shell does not remember how so many processes ended, after all that it started since.
        wait_for 30 says "$id$i.recv" 'has ended: '
        wait_for 30 says "$id$i.send" ' tuples in '
        (($(rows "$id$i" whole | wc -l) >= windows)) || fail "$id$i has $(rows "$id$i" whole | wc -l) windows: $(rows "$id$i")"
        (($(find "$scratch/$id$i" -name '2*.tsv' | wc -l) == 1)) || fail "$id$i keeps more than one table"
        pipe=${pipes[i]}
        exec {pipe}>&-
    done
}

# resident: KiB of each daemon.
resident() {
    local node pid
    while read -r node pid; do
        awk -v node="$node" '/^VmRSS/ { print node, $2 }' "/proc/$pid/status"
    done < <("$lab" status --name "$name" --json | jq -r '.nodes[] | select(.pid) | "\(.node) \(.pid)"')
}

readonly total=${1:-60}

more() {
    many more 20 $((total / 20))
    pass "$total windows of 20 streams"
}

# As many threads as an agent keeps without a call (kIdleThreads in agent/agent_service.cpp): so many streams that begin again at once
# need more of them than each on its way did.
export LEAK_SPARE_GRPC=64
deaths_lab --hosts 4
# What stays of the first streams, as of the first task, is there before.
many first 20 1
wait_for 20 no_tasks h1 h2 h3 h4 sw
snapshot
resident >"$scratch/before"
beside_each_other loses_all more
nothing_left "streams" 30
resident | paste -d ' ' "$scratch/before" - | awk '{ print "KiB of " $1 ": " $2 ", then " $4 }'
