#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Groups on links that lose, repeat and reorder, with a switch that dies, forgets everything, is too small or is not
# there: always the reference's bytes.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

# big GROUP: 24 MB for each of four, which takes the links three seconds at least, as long as who does something in the middle
# may be kept from it; sets $dir.
big() {
    dir=$scratch/$1
    make_vectors "$dir" --seed "${#1}" --members 4 --count 3000000
    start_group "$dir" "$1"
    under_way h2 1000000
    still_runs "$dir"
}

ends_well() {
    finish_group "$dir"
    rm "$dir"/in* "$dir"/m*.out
    pass "$1"
}

lossy() {
    lab_do chaos set --loss 1 --dup 1 --reorder 2 --seed 1
    reduce_vectors loss1 "--dtype float32" --seed 1 --members 4 --count 300000 --dtype float32
    lab_do chaos set --loss 30 --dup 10 --reorder 10 --seed 2
    reduce_vectors loss30 "" --seed 2 --members 4 --count 8000
    lab_do chaos clear
    pass "1 % and 30 % loss, with repeats and late packets"
}

# Traffic goes on without the daemon; its successor adopts the group.
daemon_killed() {
    big killed
    lab_do kill sw -KILL
    under_way h2 1000000
    lab_do restart sw
    ends_well "ask-switchd killed and restarted in the middle"
    reduce_vectors after "" --seed 4 --members 4 --count 1000
    # Its program knows the members' channels still, and would drop what comes under another incarnation.
    lab_do kill sw -KILL
    reduce_vectors orphan "" --seed 12 --members 4 --count 1000
    lab_do restart sw
    reduce_vectors adopted "" --seed 13 --members 4 --count 1000
    pass "groups that begin while ask-switchd is dead"
}

# As a reboot does: daemon, programs, links and maps are gone.
maps_gone() {
    big forgets
    lab_do kill sw -KILL
    unload sw
    ends_well "the switch's maps gone in the middle"
    # Results that nobody copies any more are asked for one by one, until the root notices: 3 times as long and more.
    jq -e '.seconds < 39' "$dir/m0.json" >/dev/null || fail "without its switch the group took $(cat "$dir/m0.json")"
    lab_do restart sw
    reduce_vectors anew "" --seed 5 --members 4 --count 1000
    big back
    lab_do kill sw -KILL
    unload sw
    lab_do restart sw
    ends_well "the switch is another in the middle"
}

side_by_side() {
    local group
    for group; do
        make_vectors "$scratch/$group" --seed "${#group}" --members 4 --count 100000
        start_group "$scratch/$group" "$group"
    done
    for group; do finish_group "$scratch/$group"; done
    # Their ids are free at once.
    for group; do
        start_group "$scratch/$group" "$group"
        finish_group "$scratch/$group"
    done
}

lab_up --hosts 4 --rate 60M
lossy
daemon_killed
maps_gone
side_by_side one other
pass "two groups at once, and again under their ids"
lab_do down

printf 'value_slots = 16\n' >"$scratch/tiny.toml"
lab_up --hosts 4 --config-switch "$scratch/tiny.toml"
side_by_side a bb ccc dddd
pass "four groups on a pool of 16"
lab_do down

lab_up --hosts 2 --switch off
reduce_vectors none "--dtype int32" --seed 6 --members 2 --count 300000 --dtype int32
pass "no switch"
