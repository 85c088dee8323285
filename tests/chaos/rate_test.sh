#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Links of a rate: plain UDP and TCP both get it to a few per cent, what is too much is dropped and counted, and what is
# too much of a rate is refused.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

ready() {
    grep -q ready "$1"
}

# gets PROTOCOL HEADERS PORT: megabits of frames a second from h1 to h2, of payloads of 1500 bytes less IP's and its own headers.
# A receiver that has heard nothing for half a second ends; what came in less than a second says nothing: 0.
gets() {
    local -r log=$scratch/$1$3
    spawn "$log" h2 "$build/tests/ask-rate-probe" receive "$1" 198.18.2.2 "$3" </dev/null
    wait_for 10 ready "$log.out"
    on h1 "$build/tests/ask-rate-probe" send "$1" 198.18.2.2 "$3" 2 2>"$log.send" || true # its receiver may have ended
    exit_of "$spawned"
    ((code == 0)) || fail "the receiver of $1 ended with $code: $(<"$log.err")"
    tail -n 1 "$log.out" | jq --argjson headers "$2" \
        'if .seconds < 1 then 0 else .bytes * 8 / .seconds / 1e6 * 1514 / (1500 - $headers) | . * 10 | round / 10 end'
}

# measure PROTOCOL HEADERS: sets $got to the most of up to three runs, of which one is to get what there is: it is less where the
# machine is too busy for the injector to be in time. None ever gets more.
measure() {
    local run rate
    got=0
    for run in 1 2 3; do
        rate=$(gets "$1" "$2" $((9000 + run)))
        jq -en --argjson rate "$rate" '$rate < 102' >/dev/null || fail "$1 gets $rate Mbit/s of a link of 100"
        got=$(jq -n --argjson rate "$rate" --argjson most "$got" '[$rate, $most] | max')
        ! jq -en --argjson got "$got" '$got > 80' >/dev/null || return 0
    done
    fail "$1 gets $got Mbit/s of a link of 100, in the best of $run runs"
}

lab_up --hosts 2 --no-daemons --rate 100M
measure udp 28
udp=$got
(($("$lab" chaos --name "$name" status --json | jq .sum.queue_full) > 0)) || fail "twice as much as goes, and nothing dropped"
measure tcp 52
pass "a link of 100 Mbit/s: UDP $udp, TCP $got"

for rate in 0 99k 101G fast 1T; do
    "$lab" up --name "${name}b" --no-daemons --rate "$rate" 2>"$scratch/err" && fail "--rate $rate is taken"
    grep -q -- --rate "$scratch/err" || fail "--rate $rate: $(<"$scratch/err")"
done
pass "refusals"
