#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# groups_levels_test.sh first|last: of a group behind two switches one is not there, dies, or loses all that it has, in the
# middle of a sum: exact, slower, named; and once it is back the group is open there again, and then nowhere.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

# gone SWITCH: daemon, programs, links and maps, as by a reboot.
gone() {
    lab_do kill "$1" -KILL
    unload "$1"
}

# big GROUP MEGABYTES: in the middle; sets $dir. A megabyte takes the links 0.4 s at least.
big() {
    dir=$scratch/$1
    make_vectors "$dir" --seed "${#1}" --members 4 --count "$((125000 * $2))"
    start_group "$dir" "$1"
    under_way h3 500000
    still_runs "$dir"
}

nothing_left() {
    wait_for 10 has_no_group s1 1 2
    wait_for 10 has_no_group s2 3 4
    pass "$1"
}

# dies SWITCH RANKS: of two the one that is named, and what an error says of those behind it.
dies() {
    local -r switch=$1 address=198.19.128.${1#s}:4792
    # Longer than a daemon takes to start on a busy machine, or its close is not heard, and its lease is what ends it.
    big restarts 18
    lab_do kill "$switch" -KILL
    under_way h3 500000
    lab_do restart "$switch"
    finish_group "$dir"
    nothing_left "ask-switchd of $switch killed and restarted in the middle"

    big forgets 18
    gone "$switch"
    lab_do restart "$switch"
    must_explain h1 forgets "The switch switch $address lost the group .*; opened there again .* ago"
    still_runs "$dir"
    finish_group "$dir"
    on h1 askctl groups forgets --json | jq -e --arg address "$address" '.switches | length == 2
        and any(.[]; .address == $address and .open and .losses == 1)' >/dev/null ||
        fail "h1 shows $(on h1 askctl groups forgets --json)"
    nothing_left "$switch is another in the middle"

    big vanishes 6
    gone "$switch"
    finish_group "$dir"
    pass "$switch gone in the middle"
    dir=$scratch/without
    make_vectors "$dir" --seed 3 --members 4 --count 20000
    run_group "$dir" without
    # Or, where a member has heard of it before its root: that this one is not registered there.
    explains h1 without "(switch $address does not add for $2|is not registered at switch $address): .*nobody listens at $address" ||
        fail "h1 explains $(on h1 askctl group explain without)"
    lab_do restart "$switch"
    reduce_vectors again "" --seed 4 --members 4 --count 20000
    nothing_left "a group that begins without $switch"
}

# Spines are routers.
lab_up --topology leaf-spine:2,2,2 --blue s1,s2 --rate 20M
case ${1-} in
    first) dies s2 'h3 .198.18.3.2., h4 .198.18.4.2.' ;;
    last) dies s1 'h1 .198.18.1.2., h2 .198.18.2.2.' ;;
    *) fail "usage: $0 first|last" ;;
esac
