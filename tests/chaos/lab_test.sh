#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/lab with a fault injector in the middle of its links: what it passes, what it refuses, and that nothing is left.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

chaos() {
    "$lab" chaos --name "$name" "$@"
}

# expect_error CODE TEXT COMMAND... : fails with the code, and standard error holds the text.
expect_error() {
    local -r text=$2
    local said
    code=0
    said=$("${@:3}" 2>&1 >/dev/null) || code=$?
    ((code == $1)) || fail "'${*:3}' gave exit code $code, expected $1; it said: $said"
    [[ $said == *"$text"* ]] || fail "'${*:3}' said '$said', expected '$text' in it"
}

# A closed TCP port answers at once, so a refusal proves that packets go both ways.
reaches() {
    local said
    said=$(on "$1" timeout 5 bash -c "</dev/tcp/$2/9" 2>&1) && fail "port 9 of $2 is open"
    [[ $said == *"Connection refused"* ]]
}

# send_udp COUNT PORT: datagrams from h1 to h2. The stack of h2 answers each with an ICMP error, which is no UDP.
send_udp() {
    on h1 bash -c "for ((i = 0; i < $1; i++)); do echo \$i 2>/dev/null >/dev/udp/198.18.2.2/$2 || true; done"
}

# counted LINK DIRECTION COUNTER
counted() {
    chaos status --json | jq ".links[$(($1 - 1))].$2.counters.$3"
}

counted_is() {
    (($(counted "$1" "$2" "$3") == $4))
}

lab_up --hosts 2 --no-daemons --chaos
reaches h1 198.18.2.2 || fail "h1 does not reach h2 through the injectors"
reaches h2 198.18.1.1 || fail "h2 does not reach the switch"
pass "packets pass"

chaos set --link 1 --dir up --loss 100 --seed 5
send_udp 10 4790
wait_for 10 counted_is 1 up lost 10
((!$(counted 2 down packets))) || fail "a lost packet went on"
send_udp 5 4999
wait_for 10 counted_is 1 up packets 10
reaches h1 198.18.2.2 || fail "TCP is hit without --all-traffic"
chaos set --link 1 --dir up --dup 100 --dup-late 20..40
chaos set --link 2 --dir down --delay 5 --corrupt 0.5% --reorder 1
send_udp 10 4790
wait_for 10 counted_is 1 up released 10
# Ten and their copies.
wait_for 10 counted_is 2 down released 20
counted_is 1 up duplicated 10 || fail "counters: $(chaos status)"
counted_is 2 down delayed 20 || fail "counters: $(chaos status)"
chaos set --all-traffic --delay 1..2
reaches h1 198.18.2.2 || fail "nothing passes under --all-traffic --delay 1..2"
(($(counted 1 up delayed) > 0)) || fail "--all-traffic leaves TCP alone"
chaos clear
[[ $(chaos status --json | jq -c '[.links[][["up", "down"][]].rule | .loss + .dup + .delay_ms[1]] | add') == 0 ]] ||
    fail "clear leaves rules: $(chaos status)"
chaos status | grep -q '^h1 *up *no faults' || fail "status in words: $(chaos status)"
pass "faults where asked"

expect_error 2 "percent, 0 to 100" chaos set --loss 101
expect_error 2 "percent, 0 to 100" chaos set --dup x
expect_error 2 "milliseconds" chaos set --delay 5..1
expect_error 2 "1 to 2" chaos set --link 3 --loss 1
expect_error 2 "--dir" chaos set --dir sideways
expect_error 2 "unknown command" chaos break
expect_error 2 "--mtu up to" "$lab" up --name "${name}b" --no-daemons --chaos --mtu 9000
pass "refusals"

injector_dead() {
    ! lab_do kill chaos -0 2>/dev/null
}
lab_do kill chaos -KILL
wait_for 10 injector_dead
lab_do restart chaos
reaches h1 198.18.2.2 || fail "nothing passes after a restart of the injector"
"$lab" down --name "$name"
[[ -z $(ip netns list | grep "^ask-$name-" || true) ]] || fail "namespaces left"
lab_up --hosts 1 --no-daemons
expect_error 1 "no fault injector" chaos status
pass "killed, restarted, gone"
