#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# own_switches_test.sh counts|deaths: tasks on their senders' own switches, in a fabric of four leaves and two spines. Exact
# under loss, links cut and mended; fewer packets between switches than on the receiver's own one; a switch's daemon and its
# maps lost; a switch that is away, and hosts that have none, are done without by name.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Leaf s1 has h1 to h4, and h1 receives; s2 has h5 to h8, s3 h9 to h12, s4 h13 to h16; spines are s5 and s6.
readonly SENDERS=(h2 h5 h6 h9 h10 h13 h14)
sender_host() {
    printf '%s' "${SENDERS[$(($1 - 1))]}"
}

# counter NODE NAME
counter() {
    on "$1" askctl counters --json | jq --arg name "$2" '.[] | select(.name == $name) | .value'
}

# uplinks: packets of tuples that have gone up from the leaves to the spines.
uplinks() {
    "$lab" status --name "$name" --json | jq '[.links[]
        | select((.from | test("^s[1-4]$")) and (.to | test("^s[56]$")) or (.to | test("^s[1-4]$")) and (.from | test("^s[56]$")))
        | (if .from | test("^s[1-4]$") then .up else .down end) | .data, .long, .var | .packets] | add'
}

# A third of each input at a time, on request: $scratch/TASK.second, then $scratch/TASK.third.
thirds() {
    local -r all=$(wc -l <"$1")
    head -n $((all / 3)) "$1"
    wait_for 60 test -e "$scratch/$2.second"
    sed -n "$((all / 3 + 1)),$((2 * (all / 3)))p" "$1"
    wait_for 60 test -e "$scratch/$2.third"
    tail -n +$((2 * (all / 3) + 1)) "$1"
}

# under_way HOST TASK: it sends.
under_way() {
    on "$1" askctl tasks --json | jq -e --arg id "$2" \
        'any(.[]; .id == $id and .role == "sender" and .stats.packets_sent > 0)' >/dev/null
}

all_under_way() {
    local host
    for host in "${SENDERS[@]}"; do under_way "$host" "$1" || return 1; done
}

words() {
    make_input "$scratch/$1" --seed "$2" --senders 7 --tuples 24000 --keys 4000 --op count --count-lines
}

readonly RECV="--op count --aggregators 1024 --geometry default" SEND="--count --merge-window 0"

# finish_without DIR: as finish_task, of a task whose ask-recv says who went without a switch.
finish_without() {
    local pid who
    while read -r pid who; do
        exit_of "$pid"
        ((code == 0)) || fail "$1: $who ended with $code: $(cat "$1/$who.err")"
    done <"$1/pids"
    cmp "$1/recv.out" "$1/expected.tsv" || fail "$1: wrong answer"
}

# have_programs: each leaf, for regions of the smallest size, with which it starts, and of another.
have_programs() {
    local leaf
    for leaf in s1 s2 s3 s4; do
        (($(grep -c 'loaded a program for regions of' "$ASK_LAB_DIR/$name/logs/$leaf.log") > 1)) || return 1
    done
}

# Each leaf has had a region of the size that these tasks have. Its first one waits for the verifier, and a task waits three seconds
# for its senders' own switches: four that begin on two busy processors take longer.
prepared() {
    local -r dir=$scratch/prepared
    make_input "$dir" --seed 20 --senders 7 --tuples 1000 --keys 300 --op count --count-lines
    start_task "$dir" prepared h1 "$RECV --switches own" "$SEND"
    finish_without "$dir"
    wait_for 30 have_programs
}

# The same input by either: packets up are counted without loss.
fewer_packets() {
    local before one own
    words one 21
    before=$(uplinks)
    run_task "$scratch/one" one h1 "$RECV" "$SEND"
    one=$(($(uplinks) - before))
    words own 21
    before=$(uplinks)
    run_task "$scratch/own" own h1 "$RECV --switches own" "$SEND"
    own=$(($(uplinks) - before))
    cmp "$scratch/one/recv.out" "$scratch/own/recv.out" || fail "two answers"
    jq -e '.runs == 1 and (.switches | length) == 4 and .without_switch == []
        and all(.switches[]; .tuples > 0 and .aggregators == 1024) and ([.switches[].senders[]] | length) == 7
        and .aggregators == 4096 and ([.switches[].tuples] | add) == .tuples_switch' "$scratch/own/recv.json" >/dev/null ||
        fail "not on four switches: $(cat "$scratch/own/recv.json")"
    ((own * 2 < one)) || fail "packets up: $own by senders' own switches, $one by the receiver's"
    printf 'packets up from the leaves: %s by the receiver'\''s switch, %s by senders'\'' own\n' "$one" "$own"
    pass "fewer packets between switches"
}

under_loss() {
    local -r dir=$scratch/loss
    lab_do chaos set --loss 3 --dup 3 --reorder 3 --seed 31
    words loss 22
    FEED=thirds start_task "$dir" loss h1 "$RECV --swap every=200 --switches own" "$SEND"
    wait_for 20 all_under_way loss
    lab_do link s2 s5 down
    : >"$scratch/loss.second"
    on h1 askctl task explain loss >"$dir/explain"
    grep -qE '^Switch .* aggregates for h[56] .*h[56] .*: 1,024 aggregators per array' "$dir/explain" ||
        fail "not explained: $(cat "$dir/explain")"
    lab_do link s2 s5 up
    lab_do link s3 s6 down
    : >"$scratch/loss.third"
    finish_task "$dir"
    lab_do link s3 s6 up
    jq -e '.runs == 1 and (.switches | length) == 4 and all(.switches[]; .tuples > 0)' "$dir/recv.json" >/dev/null ||
        fail "not aggregated everywhere: $(cat "$dir/recv.json")"
    lab_do chaos clear
    wait_for 20 no_tasks h1 "${SENDERS[@]}" s1 s2 s3 s4
    pass "exact under loss, links cut and mended"
}

# refused TEXT FLAG... : by name, before anything happens.
refused() {
    local -r text=$1
    local code=0
    shift
    on h1 ask-recv --task no --senders 1 "$@" >"$scratch/no.out" 2>"$scratch/no.err" </dev/null || code=$?
    ((code != 0)) || fail "$* is taken"
    grep -q -- "$text" "$scratch/no.err" || fail "$* ended with $code: $(cat "$scratch/no.err")"
}

counts() {
    lab_up --topology leaf-spine:4,2,4
    refused "--switches" --switches both
    refused "--no-switch" --switches own --no-switch
    prepared
    fewer_packets
    under_loss
}

# One daemon is killed and comes back with its maps; then another switch loses them.
daemon_and_maps() {
    local -r dir=$scratch/daemon
    words daemon 23
    FEED=thirds start_task "$dir" daemon h1 "$RECV --switches own" "$SEND"
    wait_for 20 all_under_way daemon
    lab_do kill s3 -KILL
    : >"$scratch/daemon.second"
    lab_do restart s3
    : >"$scratch/daemon.third"
    finish_task "$dir"
    jq -e '.runs == 1 and (.switches | length) == 4' "$dir/recv.json" >/dev/null || fail "a daemon's death: $(cat "$dir/recv.json")"
    pass "a switch's daemon killed and restarted"
}

loses_all() {
    lab_do kill "$1" -KILL
    unload "$1"
}

# left_with ID DIR HOST HOST: a second run, in which all switches but that of these two aggregate.
left_with() {
    jq -e --arg one "$3" --arg other "$4" '.runs == 2 and .complete and (.switches | length) == 3 and all(.switches[]; .tuples > 0)
        and ([.without_switch[].sender] | map(split(" ")[0]) | sort) == ([$one, $other] | sort)
        and all(.without_switch[]; .reason | test("has lost what it had of the task.s last run"))' "$2/recv.json" >/dev/null ||
        fail "$1: not a second run with those that are left: $(cat "$2/recv.json")"
}

maps_lost() {
    local -r dir=$scratch/maps
    words maps 24
    FEED=thirds start_task "$dir" maps h1 "$RECV --switches own" "$SEND"
    wait_for 20 all_under_way maps
    loses_all s3
    lab_do restart s3
    : >"$scratch/maps.second"
    : >"$scratch/maps.third"
    finish_without "$dir"
    left_with maps "$dir" h9 h10
    grep -qE 'no switch has aggregated for h9 .*: switch 198.19.128.3:4792 has lost' "$dir/recv.err" || fail "maps: not said: $(cat "$dir/recv.err")"
    wait_for 20 no_tasks h1 "${SENDERS[@]}" s1 s2 s3 s4
    pass "a switch's maps lost: the task begins again with the others"
}

# What comes past it has no mark, which is believed once it has lasted for the deadline.
stays_away() {
    local -r dir=$scratch/gone
    words gone 27
    FEED=thirds start_task "$dir" gone h1 "$RECV --deadline 6 --switches own" "$SEND --deadline 6"
    wait_for 20 all_under_way gone
    loses_all s2
    : >"$scratch/gone.second"
    : >"$scratch/gone.third"
    finish_without "$dir"
    left_with gone "$dir" h5 h6
    lab_do restart s2
    pass "a switch that stays away"
}

# s4 is away, though its programs run and know its hosts' channels.
one_away() {
    local -r dir=$scratch/away
    words away 25
    lab_do kill s4 -KILL
    start_task "$dir" away h1 "$RECV --switches own" "$SEND"
    finish_without "$dir"
    grep -qE 'no switch has aggregated for h13 .*: switch ' "$dir/recv.err" || fail "away: not said: $(cat "$dir/recv.err")"
    jq -e '(.switches | length) == 3 and ([.without_switch[].sender] | sort | map(split(" ")[0])) == ["h13", "h14"]
        and all(.senders[]; (.tuples_switch > 0) != (.name | test("^h1[34] ")))' "$dir/recv.json" >/dev/null ||
        fail "away: $(cat "$dir/recv.json")"
    (($(counter h1 senders_without_switch) >= 2)) || fail "away: not counted"
    lab_do restart s4
    words back 26
    run_task "$scratch/back" back h1 "$RECV --switches own" "$SEND"
    jq -e '(.switches | length) == 4 and .without_switch == []' "$scratch/back/recv.json" >/dev/null ||
        fail "back: $(cat "$scratch/back/recv.json")"
    wait_for 20 no_tasks h1 "${SENDERS[@]}" s1 s2 s3 s4
    pass "a switch that is away is done without"
}

deaths() {
    lab_up --topology leaf-spine:4,2,4
    prepared
    daemon_and_maps
    maps_lost
    stays_away
    one_away
}

[[ $(type -t "${1-}") == function && $1 =~ ^(counts|deaths)$ ]] || fail "usage: $0 counts|deaths"
"$1"
