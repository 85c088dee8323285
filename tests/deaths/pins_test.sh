#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pins are removed under ask-switchd, and their bpffs is unmounted: what is running goes on, and a successor either starts
# and makes do with what is there, or says what is missing. A task that has lost something begins again; no answer is
# ever wrong.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Removing goes by this name, so nothing else can be meant.
pins=

switch_log() {
    "$lab" log --name "$name" sw
}

# starts_not TEXT: a successor says so and ends.
starts_not() {
    lab_do kill sw -KILL
    if lab_do restart sw >"$scratch/restart" 2>&1; then
        fail "a successor started, though it should say '$1'"
    fi
    grep -qE -- "$1" "$scratch/restart" || fail "instead of '$1' a successor said: $(cat "$scratch/restart")"
}

killed_and_back() {
    lab_do kill sw -KILL
    lab_do restart sw
}

# counted_again LOG: the switch had lost something of the task, which therefore began again.
counted_again() {
    jq -e '.runs > 1' "$scratch/$1-recv.json" >/dev/null || fail "$1 did not begin again"
}

finish_stream() {
    feed 10001 30000
    exec 9>&-
    exact "$1"
}

task_pins_removed() {
    stream_task gone gone 10000
    rm "$pins/tasks/by-name/@/gone"/*
    finish_stream gone
    nothing_left "a task's pins are removed: the daemon that made it still has it"
}

# Each of a task's pins, and then the daemon: the successor knows the task no more, or not wholly.
task_pin_removed_and_killed() {
    local -r pin=$1
    stream_task "no-$pin" "no-$pin" 10000
    rm "$pins/tasks/by-name/@/no-$pin/$pin"
    killed_and_back
    finish_stream "no-$pin"
    counted_again "no-$pin"
    nothing_left "a task's $pin is removed, and the daemon killed: the task begins again"
}

map_removed() {
    stream_task nomap nomap 10000
    rm "$pins/maps/flows"
    starts_not 'maps/flows.*--unload'
    unload sw
    lab_do restart sw
    finish_stream nomap
    counted_again nomap
    still_works
    nothing_left "a map's pin is removed: a successor says so, and starts after --unload"
}

meta_removed() {
    stream_task nometa nometa 10000
    rm "$pins/maps/meta"
    killed_and_back
    finish_stream nometa
    counted_again nometa
    still_works
    nothing_left "the switch's meta is removed: a successor starts anew"
}

program_removed() {
    stream_task noprog noprog 10000
    rm "$pins/progs/switch"
    starts_not 'progs/switch.*--unload'
    unload sw
    lab_do restart sw
    finish_stream noprog
    counted_again noprog
    nothing_left "the program's pin is removed: a successor says so, and starts after --unload"
}

# The port is not attached any more, and what passes it is not counted until it is. Afterwards the switch takes in all
# that comes, so the receiver hears nothing for half a deadline and more: no reason to end a task.
link_removed() {
    DEADLINE=6 stream_task nolink nolink 10000
    remove_link
    feed 10001 20000
    wait_for 10 round_the_switch
    lab_do restart sw
    feed 20001 29000
    sleep 5
    feed 29001 30000
    exec 9>&-
    exact nolink
    nothing_left "a port's link is removed: a successor attaches it again"
}

# What is fed before the kernel has let go of the link does not go round the switch.
remove_link() {
    rm "$pins/links/p2"
    wait_for 30 detached p2
}

round_the_switch() {
    on h3 askctl counters --json | jq -e '[.. | objects | select(.name == "receiver_bad_mark")][0].value | tonumber > 0' >/dev/null
}

# As long as it stays so nothing is counted, and both ends say why.
link_stays_removed() {
    # The sender hears why from the receiver, which looks every second, before it gives up by itself.
    DEADLINE=8 stream_task round round 10000
    remove_link
    feed 10001 20000
    ends_in 30 "$sender" "$receiver"
    exit_of "$sender"
    ((code == 11)) || fail "a sender whose packets go round the switch ended with $code"
    exit_of "$receiver"
    ((code == 11)) || fail "its receiver ended with $code"
    grep -q 'its packets go round the switch' "$scratch/round.err" || fail "the sender does not say why: $(cat "$scratch/round.err")"
    grep -q 'its packets go round the switch' "$scratch/round-recv.err" || fail "the receiver does not say why"
    exec 9>&-
    killed_and_back
    nothing_left "packets go round the switch for as long as the deadline: both ends say so"
}

mount_again() {
    mount -t bpf -o mode=0755 "$(<"$ASK_LAB_DIR/$name/token")" "$ASK_LAB_DIR/$name/bpf/sw"
}

bpffs_unmounted() {
    stream_task unmount unmount 10000
    umount --lazy "$ASK_LAB_DIR/$name/bpf/sw"
    # Tasks that are there go on; new ones need pins.
    spawn "$scratch/new" h3 ask-recv --task new --senders 1 --deadline 5 --geometry default --aggregators 64 </dev/null
    ends_in 15 "$spawned"
    expect "$scratch/new" 4 'task new: .*/tasks/[0-9a-f]*: No such file' "$spawned"
    finish_stream unmount
    wait_for 10 no_tasks sw
    pass "the bpffs is unmounted: tasks go on, new ones are refused"

    stream_task_on_switch
    starts_not 'is not a bpffs: run mount -t bpf'
    wait_for 30 detached p1
    mount_again
    lab_do restart sw
    finish_stream mount
    counted_again mount
    still_works
    nothing_left "the bpffs is unmounted and the daemon killed: a successor says so, and starts once it is back"
}

# detached PORT. The kernel lets go of a link a little after its last user, by work that it puts off: beside other tests and a soak
# that has taken more than 10 s.
detached() {
    on sw ip -json link show dev "$1" | jq -e 'all(.[]; .xdp == null)' >/dev/null
}

stream_task_on_switch() {
    lab_do kill sw -KILL
    wait_for 30 detached p1
    mount_again
    lab_do restart sw
    stream_task mount mount 10000
    umount --lazy "$ASK_LAB_DIR/$name/bpf/sw"
}

deaths_lab --hosts 3
pins=$ASK_LAB_DIR/$name/bpf/sw/ask
DEADLINE=20
task_pins_removed
for pin in meta region heat; do task_pin_removed_and_killed "$pin"; done
map_removed
meta_removed
program_removed
link_removed
link_stays_removed
bpffs_unmounted
