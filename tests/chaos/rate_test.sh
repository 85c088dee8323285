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

# gets PROTOCOL HEADERS: megabits of frames a second from h1 to h2, of payloads of 1500 bytes less IP's and its own headers.
gets() {
    spawn "$scratch/$1" h2 "$build/tests/ask-rate-probe" receive "$1" 198.18.2.2 9000 </dev/null
    wait_for 10 ready "$scratch/$1.out"
    on h1 "$build/tests/ask-rate-probe" send "$1" 198.18.2.2 9000 2
    exit_of "$spawned"
    ((code == 0)) || fail "the receiver of $1 ended with $code: $(<"$scratch/$1.err")"
    tail -n 1 "$scratch/$1.out" |
        jq -e --argjson headers "$2" '.bytes * 8 / .seconds / 1e6 * 1514 / (1500 - $headers) | . * 10 | round / 10'
}

# Less where the machine is too busy for the injector to be in time; never more.
near() {
    jq -en --argjson got "$1" '$got > 80 and $got < 102' >/dev/null
}

lab_up --hosts 2 --no-daemons --rate 100M
udp=$(gets udp 28)
near "$udp" || fail "UDP gets $udp Mbit/s of a link of 100"
(($("$lab" chaos --name "$name" status --json | jq .sum.queue_full) > 0)) || fail "twice as much as goes, and nothing dropped"
tcp=$(gets tcp 52)
near "$tcp" || fail "TCP gets $tcp Mbit/s of a link of 100"
pass "a link of 100 Mbit/s: UDP $udp, TCP $tcp"

for rate in 0 99k 101G fast 1T; do
    "$lab" up --name "${name}b" --no-daemons --rate "$rate" 2>"$scratch/err" && fail "--rate $rate is taken"
    grep -q -- --rate "$scratch/err" || fail "--rate $rate: $(<"$scratch/err")"
done
pass "refusals"
