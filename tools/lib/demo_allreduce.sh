#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/demo allreduce: a sum of eight hosts' vectors, by the switch and by the collector alone, and what each link carried.

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=tools/lib/common.sh
source "$here/lib/common.sh"
# shellcheck source=tools/lib/lab_job.sh
source "$here/lib/lab_job.sh"

readonly MEMBERS=8
# Of int64: 4 MB each.
readonly VALUES=500000

usage() {
    cat <<USAGE
Usage: tools/demo allreduce [--json] [--keep]

Installs, builds, makes a lab of $MEMBERS hosts and a switch, sums $VALUES int64 values of each host at all of them with
ask-allreduce, checks every host's result, and shows what the links carried: "switch", and "collector" without the
switch's help (--no-switch). h1's agent is the collector.

  --json   the report as JSON
  --keep   leave the lab up, and the files; says where
USAGE
}

json=0
keep=0
while (($#)); do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --json) json=1 ;;
        --keep) keep=1 ;;
        *) usage_error "unknown option $1" ;;
    esac
    shift
done
require_root "namespaces and BPF"

say() {
    ((json)) || printf '%s\n' "$*"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/ask-demo.XXXXXX")
use_lab demo "$work"

cleanup() {
    trap '' INT TERM HUP
    end_commands
    if ((keep)); then
        note "kept: lab '$job_lab' (tools/lab status --name $job_lab, tools/lab down --name $job_lab) and $work"
        return
    fi
    "$here/lab" down --name "$job_lab" || true
    rm -rf --one-file-system "$work"
}

# vector FACTOR: value i is i times this.
vector() {
    perl -e 'print pack("q<*", map { $_ * $ARGV[0] } 0 .. $ARGV[1] - 1)' "$1" "$VALUES"
}

# The hosts' ends of all links, bytes: {"h1": {"received": .., "sent": ..}, ..}
link_bytes() {
    local i
    for ((i = 1; i <= MEMBERS; i++)); do
        lab exec "h$i" -- ip -stats -json link show dev eth0 |
            jq --arg host "h$i" '{($host): (.[0].stats64 | {received: .rx.bytes, sent: .tx.bytes})}'
    done | jq -s add
}

# run NAME FLAG... : of ask-allreduce.
run() {
    local -r name=$1
    local i correct=true
    shift
    link_bytes >"$work/before.json"
    for ((i = 1; i <= MEMBERS; i++)); do
        start "h$i" ask-allreduce --group "$name" --rank $((i - 1)) --size "$MEMBERS" --root h1 --json "$work/member$i.json" \
            "$@" "$work/vector$i"
    done
    await_commands "$name"
    link_bytes >"$work/after.json"
    for ((i = 1; i <= MEMBERS; i++)); do cmp -s "$work/h$i.out" "$work/sum" || correct=false; done
    [[ $correct == true ]] || wrong+=("$name")
    jq -n --arg name "$name" --argjson correct "$correct" --slurpfile before "$work/before.json" \
        --slurpfile after "$work/after.json" \
        '{name: $name, correct: $correct, seconds: ([inputs.seconds] | max),
          links: ($after[0] | with_entries(.key as $h | .value |= with_entries(.value -= $before[0][$h][.key])))}' \
        "$work"/member?.json >"$work/run-$name.json"
}

print_report() {
    local -r runs=("$work/run-switch.json" "$work/run-collector.json")
    if ((json)); then
        jq -s --argjson values "$VALUES" '{values: $values, runs: .}' "${runs[@]}"
        return
    fi
    printf '\n%-22s %14s %14s %10s\n' "MB on the link" switch collector share
    jq -sr 'def mb: . / 1e6 * 100 | round / 100;
        (.[0].links | keys[]) as $h | ("sent", "received") as $way |
        [$h + (if $h == "h1" then ", the collector," else "" end) + " " + $way] + map(.links[$h][$way]) |
        [.[0], (.[1] | mb), (.[2] | mb), "\(.[1] / .[2] * 100 | round) %"] | @tsv' "${runs[@]}" |
        awk -F'\t' '{ printf "%-26s %10s %14s %10s\n", $1, $2, $3, $4 }'
    jq -sr '["seconds"] + map(.seconds * 100 | round / 100) | @tsv' "${runs[@]}" |
        awk -F'\t' '{ printf "%-26s %10s %14s\n", $1, $2, $3 }'
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

wrong=()
"$here/build"
require_commands jq perl
began=$SECONDS
for ((i = 1; i <= MEMBERS; i++)); do vector "$i" >"$work/vector$i"; done
vector $((MEMBERS * (MEMBERS + 1) / 2)) >"$work/sum"
lab up --hosts "$MEMBERS" >"$work/up.err"
say "run: the switch adds"
run switch
say "run: the collector adds"
run collector --no-switch
print_report
((${#wrong[@]} == 0)) || die "the sum of ${wrong[*]} is wrong"
say
say "every host has the right sum, byte for byte; $((SECONDS - began)) s in all"
