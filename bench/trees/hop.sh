# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What a relay takes to fetch and send on: one sender, one relay at the root, and keys that come once each. From the last FIN at the relay
# to its own FIN at the receiver, by the logs of their agents.
# Settings are those of bench/trees/run; what is shared comes from tasks.sh.
# shellcheck disable=SC2034,SC2154

# one_sender: the first host sends once, the others nothing. Sets $relay, the host of the one relay.
one_sender() {
    describe
    jq '.host |= [range(length) as $i | .[$i] + {load: (if $i == 0 then 1 else 0 end)}]' "$work/tree.json" >"$work/hop.json"
    load "$work/hop.json"
    # SOAR has nothing to gain by one flow.
    plan "$work/hop.json" "$work/hop-plan.json" top 1
    relay=$(jq -r '.aggregate[0] | sub("^s"; "r")' "$work/hop-plan.json")
}

# reserve_of RELAY MIB
reserve_of() {
    local -r conf=${ASK_LAB_DIR:-/run/ask-lab}/$job_lab/conf/$1.relayd.toml
    sed -i '/^reserve_mib/d' "$conf"
    sed -i "1i reserve_mib = $2" "$conf"
    lab restart "$1.relayd"
}

# finished_at NODE TASK SENDER: when its last FIN was there, in milliseconds.
finished_at() {
    local at
    at=$(lab log "$1" | sed -nE "s/^([0-9T:.-]+) .*task $2: sender $3 .* has finished\$/\\1/p" | tail -n 1)
    [[ -n $at ]] || die "the log of $1 does not say when $3 has finished"
    date -d "$at" +%s%3N
}

# hop RUN RESERVE: a line of JSON in $work/lines.
hop() {
    local -r task=hop-$2-$1
    local below above said
    mkdir -p "$work/$task"
    seq "$keys" >"$work/$task/part.0001"
    sed 's/$/\t1/' "$work/$task/part.0001" | LC_ALL=C sort >"$work/$task/reference"
    receive "$task" --deadline 60 --placement "$work/hop-plan.json"
    send "$task" "" "--deadline 60"
    finish "$task"
    # The relay's part has a name of its own; no other runs meanwhile.
    below=$(finished_at "$relay" 'relayed-[0-9a-f]+' "${senders[0]% *}")
    above=$(finished_at "$receiver" "$task" "$relay")
    said=$(lab log "$relay.relayd" | sed -nE "s/.*task $task: committed, .* sent on in ([0-9]+) parts, tables took ([0-9]+) KiB .*/\\1 \\2/p")
    jq -nc --argjson run "$1" --argjson reserve "$2" --arg said "$said" --argjson took $((above - below)) --slurpfile stats "$work/$task/stats.json" '
        ($said | split(" ") | map(tonumber)) as [$parts, $kib]
        | {$run, reserve_mib: $reserve, $parts, tables_kib: $kib, runs: $stats[0].runs, seconds: ($took / 1000)}' >>"$work/lines"
    rm -r "${work:?}/$task"
}

part_hop() {
    local run reserve relay
    tree_up --topology "$topology" --relays
    one_sender
    for reserve in ${reserves//,/ }; do
        note "a reserve of $reserve MiB"
        reserve_of "$relay" "$reserve"
        for ((run = 0; run < runs; run++)); do hop "$run" "$reserve"; done
    done
    lab down
}
