#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A switch that loses its memory takes nothing with it: what its tasks had is thrown away, and they begin again through
# the receiver, from files and from what senders have kept of their pipes. Whoever has kept too little makes it an
# error that says so.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# has_no_program: no port of the switch's has one any more.
has_no_program() {
    ! on sw ip -json link show | jq -e 'any(.[]; .xdp)' >/dev/null
}

# As a reboot does: daemon, programs, links and maps are gone. The kernel takes a program off a moment after its link is gone:
# what it adds up meanwhile would be the last of a task.
switch_dies() {
    lab_do kill sw -KILL
    unload sw
    wait_for 10 has_no_program
}

switch_loses_all() {
    switch_dies
    lab_do restart sw
}

# sent_at_least HOST TUPLES: its agent has taken that many, and packets are on their way.
sent_at_least() {
    on "$1" askctl tasks --json |
        jq -e --argjson least "$2" 'any(.[]; .role == "sender" and .stats.tuples_in >= $least and .stats.packets_sent > 0)' \
            >/dev/null
}

# both_joined ID: who joins later has only the second run.
both_joined() {
    on h3 askctl tasks --json |
        jq -e --arg id "$1" 'any(.[]; .id == $id and .role == "receiver" and (.senders_joined | length) == 2)' >/dev/null
}

# state_is ID STATE: of the task at its receiver.
state_is() {
    on h3 askctl tasks --json |
        jq -e --arg id "$1" --arg state "$2" 'any(.[]; .id == $id and .role == "receiver" and .state == $state)' >/dev/null
}

# begin ID SEED "RECV FLAGS" "SEND FLAGS": h1 sends from a pipe that descriptor 9 holds open, h2 from a file.
begin() {
    local -r id=$1
    local -a recv_args send_args
    read -ra recv_args <<<"$3"
    read -ra send_args <<<"$4"
    dir=$scratch/$id
    make_input "$dir" --seed "$2" --senders 2 --tuples 20000 --keys 600
    open_pipe "$dir/fifo"
    spawn "$dir/recv" h3 ask-recv --task "$id" --senders 2 --stats "$dir/recv.json" "${recv_args[@]}" </dev/null
    printf '%s recv\n' "$spawned" >"$dir/pids"
    spawn "$dir/send1" h1 ask-send --task "$id" --to h3 --merge-window 0 --stats "$dir/send1.json" \
        "${send_args[@]}" - <"$dir/fifo"
    printf '%s send1\n' "$spawned" >>"$dir/pids"
    spawn "$dir/send2" h2 ask-send --task "$id" --to h3 --merge-window 0 --stats "$dir/send2.json" \
        "${send_args[@]}" "$dir/in2.tsv" </dev/null
    printf '%s send2\n' "$spawned" >>"$dir/pids"
}

# feed FIRST LAST: these lines of the first sender's input into its pipe.
feed() {
    sed -n "$1,$2p" "$dir/in1.tsv" >&9
}

# ran_again: everybody succeeded in a second run, to which the switch added nothing.
ran_again() {
    finish_task "$dir"
    jq -e '.runs == 2 and .complete and .aggregators == 0 and .tuples_switch == 0' "$dir/recv.json" >/dev/null ||
        fail "not a second run through the receiver: $(cat "$dir/recv.json")"
    jq -es 'all(.[]; .runs == 2)' "$dir"/send[12].json >/dev/null || fail "the senders did not run twice"
    wait_for 20 no_tasks h1 h2 h3 sw
}

# skipped_once: the two malformed lines, shown and counted once although they were sent twice.
skipped_once() {
    diff - <(grep skipped "$dir/send1.err") <<'SAID' || fail "ask-send says something else about malformed lines"
ask-send: skipped: (standard input):1:10: no TAB between key and value
ask-send: skipped: (standard input):20002:3: value 'y' is not a decimal integer
ask-send: skipped 2 malformed line(s) in all
SAID
    jq -e '.lines_skipped == 2' "$dir/send1.json" >/dev/null || fail "lines_skipped is $(jq .lines_skipped "$dir/send1.json")"
    : >"$dir/send1.err"
}

in_mid_stream() {
    local -r id=$1
    begin "$id" 71 "$2" "--skip-bad 2"
    printf 'malformed\n' >&9
    feed 1 10000
    wait_for 20 sent_at_least h1 10000
    wait_for 20 both_joined "$id"
    switch_loses_all
    feed 10001 20000
    printf 'x\ty\n' >&9
    exec 9>&-
    wait_for 60 test -e "$dir/send1.json"
    skipped_once
    ran_again
    pass "lost in mid-stream ($id)"
}

before_the_fetch() {
    local -r id=fetch
    begin "$id" 72 "" ""
    feed 1 10000
    wait_for 20 sent_at_least h1 10000
    wait_for 20 both_joined "$id"
    lab_do kill sw -KILL
    feed 10001 20000
    exec 9>&-
    wait_for 20 state_is "$id" fetching
    unload sw
    lab_do restart sw
    ran_again
    pass "lost before the fetch"
}

for_good() {
    local -r id=gone
    begin "$id" 73 "--deadline 8" "--deadline 8"
    feed 1 10000
    wait_for 20 sent_at_least h1 10000
    wait_for 20 both_joined "$id"
    switch_dies
    feed 10001 20000
    exec 9>&-
    ran_again_without_switch
    lab_do restart sw
    pass "a switch that stays away"
}

ran_again_without_switch() {
    finish_task "$dir"
    jq -e '.runs == 2' "$dir/recv.json" >/dev/null || fail "no second run: $(cat "$dir/recv.json")"
}

# More than the spool keeps: both sides are told who cannot begin again, and nothing is committed.
beyond_the_spool() {
    begin spool 74 "" "--spool 1"
    { yes 'filler	1' || true; } | head -n 200000 >&9
    wait_for 30 sent_at_least h1 200000
    wait_for 20 both_joined spool
    switch_loses_all
    local pid who
    while read -r pid who; do
        exit_of "$pid"
        ((code == 13)) || fail "$who ended with $code: $(cat "$dir/$who.err")"
        grep -qE 'h1.* cannot send again what came through a pipe' "$dir/$who.err" ||
            fail "$who does not say who cannot begin again: $(cat "$dir/$who.err")"
        [[ ! -s $dir/$who.out ]] || fail "$who printed something"
    done <"$dir/pids"
    exec 9>&-
    wait_for 20 no_tasks h1 h2 h3 sw
    pass "more came through the pipe than is kept"
}

lab_up --hosts 3
in_mid_stream stream ""
in_mid_stream swaps "--swap every=20"
before_the_fetch
beyond_the_spool
for_good
