#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Many senders on one host: more than it used to have channels, hundreds with their inputs open at once, and one more
# than there are channels for. The simulator has channels of its own, which it never runs out of: it could not find this.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

from_files() {
    local -r dir=$scratch/files
    make_input "$dir" --seed 81 --senders 17 --tuples 1500 --keys 300
    SENDER_HOST=h1 run_task "$dir" files h2
    pass "17 senders on one host"
}

# all_joined ID SENDERS
all_joined() {
    on h2 askctl tasks --json | jq -e --arg id "$1" --argjson senders "$2" \
        'any(.[]; .id == $id and .role == "receiver" and (.senders_joined | length) == $senders)' >/dev/null
}

# hold_all ID SENDERS FLAGS... : as many senders on h1, their inputs held open by the descriptors in $held; $holders are
# their processes.
hold_all() {
    local -r id=$1 senders=$2
    local i fd
    shift 2
    held=()
    for ((i = 1; i <= senders; i++)); do
        mkfifo "$dir/pipe$i"
        exec {fd}<>"$dir/pipe$i"
        held+=("$fd")
    done
    # One shell in the host's namespace for all, with nothing of these open.
    (
        for fd in "${held[@]}"; do exec {fd}>&-; done
        # shellcheck disable=SC2016  # for the shell there
        on h1 bash -c 'dir=$1 id=$2 senders=$3; shift 3
            for ((i = 1; i <= senders; i++)); do
                ask-send --task "$id" --to h2 --stats "$dir/send$i.json" "$@" - <"$dir/pipe$i" >"$dir/send$i.out" \
                    2>"$dir/send$i.err" &
                pids+=("$!")
            done
            failed=0
            for ((i = 1; i <= senders; i++)); do
                code=0; wait "${pids[i - 1]}" || code=$?
                ((code == 0)) || { echo "sender $i ended with $code: $(cat "$dir/send$i.err")"; failed=1; }
            done
            exit "$failed"' _ "$dir" "$id" "$senders" "$@" >"$dir/senders.out" 2>&1
    ) &
    holders=$!
}

let_go() {
    local fd
    for fd in "${held[@]}"; do exec {fd}>&-; done
}

two_hundred_at_once() {
    local -r senders=200
    local i
    dir=$scratch/wide
    make_input "$dir" --seed 82 --senders "$senders" --tuples 200 --keys 500
    spawn "$dir/recv" h2 ask-recv --task wide --senders "$senders" --deadline 60 --stats "$dir/recv.json" </dev/null
    receiver=$spawned
    hold_all wide "$senders" --deadline 60
    wait_for 60 all_joined wide "$senders"
    for ((i = 1; i <= senders; i++)); do cat "$dir/in$i.tsv" >&"${held[i - 1]}"; done
    let_go
    exit_of "$holders"
    ((code == 0)) || fail "wide: $(head -n 5 "$dir/senders.out") $(cat "$dir/recv.err")"
    exit_of "$receiver"
    ((code == 0)) || fail "wide: the receiver ended with $code: $(cat "$dir/recv.err")"
    cmp -s "$dir/recv.out" "$dir/expected.tsv" ||
        fail "wide: wrong answer: $(diff "$dir/recv.out" "$dir/expected.tsv" | head -n 8 | cut -c 1-120)"
    check_stats "$dir/recv.json" $((senders * 200))
    pass "$senders senders on one host with their inputs open at once"
}

# At once, not at the deadline, and by name; those that are there are not the worse for it.
one_too_many() {
    local i
    sed -i '1i max_channels = 2' "$ASK_LAB_DIR/$name/conf/h1.toml"
    lab_do restart h1
    dir=$scratch/narrow
    make_input "$dir" --seed 83 --senders 3 --tuples 500 --keys 50
    spawn "$dir/recv" h2 ask-recv --task narrow --senders 3 --deadline 60 --stats "$dir/recv.json" </dev/null
    printf '%s recv\n' "$spawned" >"$dir/pids"
    # From another host, and before anything is held open: it would inherit that.
    spawn "$dir/send3" h2 ask-send --task narrow --to h2 --stats "$dir/send3.json" "$dir/in3.tsv" </dev/null
    printf '%s send3\n' "$spawned" >>"$dir/pids"
    hold_all narrow 2 --deadline 60
    wait_for 60 all_joined narrow 3
    spawn "$dir/third" h1 ask-send --task narrow --to h2 --deadline 60 "$dir/in3.tsv" </dev/null
    wait_for 30 gone "$spawned"
    expect "$dir/third" 9 'task narrow: all 2 channels of this host .* raise max_channels' "$spawned"
    for i in 1 2; do cat "$dir/in$i.tsv" >&"${held[i - 1]}"; done
    let_go
    exit_of "$holders"
    ((code == 0)) || fail "narrow: $(cat "$dir/senders.out")"
    finish_task "$dir"
    pass "a sender more than there are channels is refused at once"
}

# One channel serves a task while another, whose FIN is acknowledged, still waits for its other sender.
gives_its_channel_back() {
    local -r dir=$scratch/back
    sed -i 's/^max_channels = 2/max_channels = 1/' "$ASK_LAB_DIR/$name/conf/h1.toml"
    lab_do restart h1
    make_input "$dir" --seed 84 --senders 2 --tuples 3000 --keys 300
    spawn "$dir/recv" h2 ask-recv --task back --senders 2 --deadline 60 --aggregators 1024 --stats "$dir/recv.json" </dev/null
    printf '%s recv\n' "$spawned" >"$dir/pids"
    spawn "$dir/send1" h1 ask-send --task back --deadline 60 --to h2 --stats "$dir/send1.json" "$dir/in1.tsv" </dev/null
    printf '%s send1\n' "$spawned" >>"$dir/pids"
    wait_for 60 drained
    local i
    make_input "$scratch/meanwhile" --seed 85 --senders 1 --tuples 3000 --keys 300
    # By the switch, and on the host itself, which takes the channel from the switch for the next.
    for i in one two; do
        SENDER_HOST=h1 run_task "$scratch/meanwhile" "meanwhile-$i" h2 "--deadline 60"
        SENDER_HOST=h1 run_task "$scratch/meanwhile" "own-$i" h1 "--deadline 60"
    done
    spawn "$dir/send2" h2 ask-send --task back --deadline 60 --to h2 --stats "$dir/send2.json" "$dir/in2.tsv" </dev/null
    printf '%s send2\n' "$spawned" >>"$dir/pids"
    finish_task "$dir"
    jq -e '.senders | any(.tuples_switch > 0)' "$dir/recv.json" >/dev/null ||
        fail "back: what the switch counted for a channel that went on is lost: $(cat "$dir/recv.json")"
    pass "a channel serves others while its last task waits for its end"
}

drained() {
    on h1 askctl tasks --json | jq -e 'any(.[]; .role == "sender" and .state == "waiting for the result")' >/dev/null
}

# gone PID: the background process has ended.
gone() {
    ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null
}

# The flag, its documents and the agents agree.
limit_of_senders() {
    local -r limit=$(sed -nE 's/^#define ASK_MAX_SENDERS ([0-9]+)u?.*/\1/p' "$root/lib/abi/limits.h")
    local at
    grep -q "how many sends make the task whole, 1 to $limit " "$root/docs/commands.md" ||
        fail "docs/commands.md has another limit of --senders than $limit"
    spawn "$scratch/most" h2 ask-recv --task most --senders "$limit" </dev/null
    at=$spawned
    wait_for 20 opened h2 most
    kill -INT "$at"
    exit_of "$at"
    spawn "$scratch/more" h2 ask-recv --task more --senders $((limit + 1)) </dev/null
    expect "$scratch/more" 2 "senders: .*$limit" "$spawned"
    pass "--senders is limited to $limit everywhere"
}

lab_up --hosts 2
limit_of_senders
from_files
two_hundred_at_once
one_too_many
gives_its_channel_back
wait_for 20 no_tasks h1 h2 sw
