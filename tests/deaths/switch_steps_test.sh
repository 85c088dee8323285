#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# switch_steps_test.sh [STRIDE [FIRST]]: ask-switchd dies right before each change (or each STRIDE-th, from FIRST on) that
# it makes to maps and pins while a task is set up, streams, is fetched and torn down; each time its successor finds
# exactly what that leaves. The answer is exact, and the task leaves nothing.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly stride=${1:-1} first=${2:-1}
export ASK_DIE_FILE=$scratch/die

# The sanitizers want to be first among what is loaded.
preload() {
    LD_PRELOAD=$build/tests/ask-e2e-die-at.so ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "$@"
}

switch_gone() {
    [[ $("$lab" status --name "$name" --json | jq '.nodes[0].running') == false ]]
}

# call_as WHO METHOD JSON, with that one's certificate.
call_as() {
    on h1 env ASK_TLS="$ASK_LAB_DIR/$name/tls/$1" "$build/tests/ask-e2e-call" 198.18.1.1:4792 "ask.v1.Switch/$2" "$3"
}

# Set-up is to have every step: the sender's channel is not registered when the task begins.
forget_channels() {
    local channel host
    call_as operator GetStatus '{}' | jq -c '.channels[] | {channel, incarnation}' | while read -r channel; do
        # That of h1 is 198.18.1.2.
        host=$(($(jq .channel.host <<<"$channel") >> 8 & 255))
        call_as "h$host" UnregisterChannel "$channel" >/dev/null
    done
}

# die_before STEP: sets $died to 0 where a task does not have so many steps.
die_before() {
    local -r step=$1
    forget_channels
    printf '%s\n' "$step" >"$ASK_DIE_FILE"
    start_task "$dir" "step$step" h2 "--deadline 20 --require-region" "--merge-window 0"
    died=0
    # The last steps come after both have been told.
    wait_for 20 dead_or_over
    if [[ ! -e $ASK_DIE_FILE ]]; then
        died=1
        wait_for 10 switch_gone
        preload lab_do restart sw >/dev/null
    fi
    rm -f "$ASK_DIE_FILE"
    finish_task "$dir"
    wait_for 20 no_tasks sw
}

# The switch has died, or the task is gone from it for good.
dead_or_over() {
    [[ ! -e $ASK_DIE_FILE ]] || { commands_gone && no_tasks sw 2>/dev/null && reclaimed; }
}

commands_gone() {
    local pid who
    while read -r pid who; do gone "$pid" || return 1; done <"$dir/pids"
}

reclaimed() {
    [[ -z $(ls "$ASK_LAB_DIR/$name/bpf/sw/ask/tasks") ]]
}

printf 'lease_seconds = %s\n' "$lease" >"$scratch/lease.toml"
preload lab_up --hosts 2 --config-switch "$scratch/lease.toml"
export SENDER_HOST=h1
dir=$scratch/steps
make_input "$dir" --seed 31 --senders 1 --tuples 4000 --keys 300
run_task "$dir" warm h2
snapshot

died=1
deaths=0
for ((step = first; died; step += stride)); do
    die_before "$step"
    deaths=$((deaths + died))
done
((deaths * stride >= 20)) || fail "died only $deaths times: where have the steps of a task gone?"
nothing_left "ask-switchd died before $deaths of the about $((step - stride)) changes that a task makes"
