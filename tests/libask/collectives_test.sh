#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collectives_test.sh on|off: every collective of libask.so with every type and operator, roots of every rank, counts from
# 0 on, up to 24 under way, against the reference of tests/libask/reference.cpp; through a switch that adds, or one that
# only routes.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly switch=${1:?on or off}

# everyone GROUP SIZE ROOT SEED: all members, side by side; their lines are in $scratch/GROUP.R.out.
everyone() {
    local -r group=$1 size=$2
    local -a members=()
    local rank
    for ((rank = 0; rank < size; rank++)); do
        spawn "$scratch/$group.$rank" "h$((rank + 1))" "$build/tests/ask-e2e-collectives" --group "$group" --rank "$rank" \
            --size "$size" --root "$3" --seed "$4" </dev/null
        members+=("$spawned")
    done
    for ((rank = 0; rank < size; rank++)); do
        exit_of "${members[rank]}"
        ((code == 0)) || fail "$group: rank $rank ended with $code: $(cat "$scratch/$group".*.err)"
    done
    alike "$group" "$size"
}

# alike GROUP SIZE: what all have, they have the same bytes of; what one has, one has.
alike() {
    local -r group=$1 size=$2
    local rank
    for ((rank = 0; rank < size; rank++)); do
        grep -v '^reduce' "$scratch/$group.$rank.out" | sort >"$scratch/$group.$rank.all"
        (($(wc -l <"$scratch/$group.$rank.all") > 150)) || fail "$group: rank $rank had only $(wc -l <"$scratch/$group.$rank.all") results"
        cmp "$scratch/$group.0.all" "$scratch/$group.$rank.all" || fail "$group: ranks 0 and $rank have different results"
    done
    (($(cat "$scratch/$group".*.out | grep -c '^reduce') > 150)) || fail "$group: hardly any reduce had a result"
    pass "$group: $(cat "$scratch/$group".*.out | wc -l) results of $size members"
}

# folded: how many packets the switch has added to others.
folded() {
    on sw askctl counters --json | jq '[.[] | select(.name == "value_folded") | .value | tonumber] | add'
}

lab_up --hosts 5 --switch "$switch"
everyone five 5 h3 1
everyone two 2 h1 2
everyone one 1 h1 3
[[ $switch == off ]] || (($(folded) > 500)) || fail "the switch has added only $(folded) packets"
