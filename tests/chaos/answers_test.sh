#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# answers_test.sh [--long] [SWITCH CONFIG LINE...]: tasks on a network that loses, repeats, reorders, damages and delays
# packets, each fault alone and all at once, with both policies and with swaps: byte for byte the reference's answer.
# --long: ten times the tuples, and copies that come minutes late.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

factor=1
latest=3000
if [[ ${1-} == --long ]]; then
    factor=10
    latest=180000
    shift
fi

chaos() {
    "$lab" chaos --name "$name" "$@"
}

# counted NAME: of all links and directions together.
counted() {
    chaos status --json | jq ".sum.$1"
}

# The ways in which a task can use the switch take turns.
readonly WAYS=("--policy first-come" "--policy replace" "--policy first-come --swap tuples=300"
    "--policy replace --swap packets=20")
turn=0
swaps=0 # of all tasks: on a busy machine a short one may be over before its first is due

# hurt ID TUPLES "COUNTER..." FAULT... : a task under these faults, which must have been done.
hurt() {
    local -r id=$1 tuples=$(($2 * factor)) counters=$3
    local -r dir=$scratch/$id way=${WAYS[$((turn % ${#WAYS[@]}))]}
    local -A before=()
    local counter
    turn=$((turn + 1))
    for counter in $counters; do before[$counter]=$(counted "$counter"); done
    chaos set --seed "$((100 + turn))" "${@:4}"
    make_input "$dir" --seed "$((40 + turn))" --senders 3 --tuples "$tuples" --keys 1500
    run_task "$dir" "$id" h4 "$way --aggregators 32 --require-region" "--merge-window 0"
    jq -e '.tuples_switch > 0' "$dir/recv.json" >/dev/null || fail "$id: nothing was aggregated on the switch"
    swaps=$((swaps + $(jq .swaps "$dir/recv.json")))
    for counter in $counters; do
        (($(counted "$counter") > before[$counter])) || fail "$id: no packet was $counter: $(chaos status)"
    done
    rm -rf "$dir"
    pass "$id, $way: $(chaos status | tail -n 1)"
}

# The data that the program refuses is that which was damaged: nothing else gets so far.
damage_noticed() {
    on sw askctl counters --json | jq -e '[.. | objects | select(.name? == "bad_check") | .value | tonumber] | add > 0' \
        >/dev/null || fail "no damaged packet was noticed on the switch: $(on sw askctl counters)"
}

copies_came() {
    (($(counted held_now) == 0))
}

printf '%s\n' "$@" >"$scratch/switch.toml"
lab_up --hosts 4 --chaos --config-switch "$scratch/switch.toml"
# First, so that what it makes comes late in other tasks, and after the last one.
hurt late 5000 "duplicated" --dup 20 --dup-late "500..$latest"
hurt loss01 60000 "lost" --loss 0.1
hurt loss1 10000 "lost" --loss 1
hurt loss10 5000 "lost" --loss 10
hurt loss30 2000 "lost" --loss 30
hurt copies 10000 "duplicated released" --dup 30 --dup-late 0..5
hurt order 10000 "reordered released" --reorder 30
hurt damage 5000 "corrupted" --corrupt 5
damage_noticed
hurt delay 5000 "delayed released" --delay 0..3
for ((i = 1; i <= 4; i++)); do
    hurt "all$i" 2000 "lost duplicated reordered corrupted" --loss 3 --dup 5 --dup-late 0..1000 --reorder 5 --corrupt 3
done
hurt tcp 6000 "lost duplicated corrupted" --all-traffic --loss 2 --dup 2 --corrupt 2
((swaps > 0)) || fail "no task has swapped"
chaos clear
wait_for $((latest / 1000 + 20)) copies_came
wait_for 20 no_tasks h1 h2 h3 h4 sw
[[ $(on sw askctl tasks --json) == "[]" ]] || fail "the switch keeps tasks: $(on sw askctl tasks --json)"
(($(counted hold_full) + $(counted refused) + $(counted send_failed) == 0)) || fail "the injector dropped: $(chaos status)"
pass "everything held has come"
