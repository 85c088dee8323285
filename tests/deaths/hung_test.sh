#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask-switchd hangs: it is there, takes connections and requests, and answers none. Whatever waits for it ends by the
# task's deadline, at both ends, and both name the switch; what it was asked for meanwhile is not left there. (The
# simulator has no such test: in it a daemon answers or is gone.)

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Longer than a busy machine lets anybody stand still who is not meant to, and shorter than a call to the switch may take.
DEADLINE=4
readonly the_switch='switch 198.18.1.1:4792'
# Twice the deadline, and some for a busy machine; well below what a fetch may take when more time is left.
readonly soon=15

hang() {
    lab_do kill sw -STOP
}

# goes_on WHAT: the daemon answers again, and nothing of WHAT is left there, long before a lease would have run out.
goes_on() {
    lab_do kill sw -CONT
    nothing_left "$1"
    ! grep -q "has not renewed it" "$ASK_LAB_DIR/$name/logs/sw.log" || fail "$1: only a lease took the task back"
}

# in_state ID STATE: the task at its receiver.
in_state() {
    on h3 askctl tasks --json | jq -e --arg id "$1" --arg state "$2" \
        'any(.[]; .id == $id and .role == "receiver" and .state == $state)' >/dev/null
}

# names_it LOG PID: the send failed because of the switch. Whether its own deadline came first or the receiver's is open.
names_it() {
    exit_of "$2"
    ((code != 0)) || fail "$1 succeeded"
    grep -qF "$the_switch" "$scratch/$1.err" || fail "$1 does not name the switch: $(cat "$scratch/$1.err")"
}

at_open() {
    hang
    receive open-recv hungopen --senders 1
    printf 'a\t1\n' >"$scratch/one.tsv"
    wait_for 10 opened h3 hungopen
    spawn "$scratch/open" h2 ask-send --task hungopen --to h3 --deadline "$DEADLINE" "$scratch/one.tsv" </dev/null
    ends_in "$soon" "$receiver" "$spawned"
    expect "$scratch/open-recv" 10 "$the_switch does not answer" "$receiver"
    names_it open "$spawned"
    goes_on "a switch that hangs when a task is opened"
}

# Two senders on one host: a channel that the switch knows, and one that it has to be told of.
at_join() {
    receive join-recv hungjoin --senders 2 --geometry default --aggregators 1024
    wait_for 10 in_state hungjoin "waiting for senders"
    hang
    local -a senders=()
    local i
    for i in 1 2; do
        spawn "$scratch/join$i" h2 ask-send --task hungjoin --to h3 --deadline "$DEADLINE" "$scratch/one.tsv" </dev/null
        senders+=("$spawned")
    done
    ends_in "$soon" "$receiver" "${senders[@]}"
    expect "$scratch/join-recv" 10 "0 of 2 senders joined within $DEADLINE s, and $the_switch does not answer" "$receiver"
    for i in 1 2; do
        names_it "join$i" "${senders[i - 1]}"
    done
    goes_on "a switch that hangs when senders join"
}

at_fetch() {
    stream_task hungfetch hungfetch 5000
    hang
    exec 9>&-
    ends_in "$soon" "$sender" "$receiver"
    expect "$scratch/hungfetch-recv" 10 "what $the_switch has aggregated could not be fetched within $DEADLINE s" "$receiver"
    expect "$scratch/hungfetch" 10 "receiver h3: .*$the_switch" "$sender"
    goes_on "a switch that hangs when a task's copy is fetched"
}

at_swap() {
    dir=$scratch/hungswap
    make_input "$dir" --seed 12 --senders 1 --tuples 30000 --keys 3000 --key-form short
    receive hungswap-recv hungswap --senders 1 --swap every=1 --aggregators 32
    hold hungswap h2 hungswap --merge-window 0
    feed 1 10000
    wait_for 20 has_swapped hungswap
    hang
    # So that another swap is due.
    feed 10001 20000
    wait_for 20 sent_at_least 20000 h2
    exec 9>&-
    ends_in "$soon" "$sender" "$receiver"
    expect "$scratch/hungswap-recv" 10 "$the_switch did not (swap|confirm) the task's copies in time" "$receiver"
    expect "$scratch/hungswap" 10 "receiver h3: .*$the_switch" "$sender"
    goes_on "a switch that hangs in a swap"
}

# Whoever does not want to wait for it need not.
interrupted() {
    hang
    DEADLINE=60 receive cancel-recv hungcancel --senders 1
    wait_for 10 opened h3 hungcancel
    kill -INT "$receiver"
    expect "$scratch/cancel-recv" 130 interrupted "$receiver"
    # At once: a single try takes 5 s.
    wait_for 4 no_tasks h3
    goes_on "a receiver that is interrupted while it waits for a switch that hangs"
}

deaths_lab --hosts 3
at_open
at_join
at_fetch
at_swap
interrupted
still_works
nothing_left "after all that, the lab counts exactly"
