#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What there is beside tasks from host to host, over IPv6 alone: a group, a stream, a relay, and what askctl shows.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

address_of() {
    printf '2001:2:0:%s::2' "${1#h}"
}

group() {
    reduce_vectors added "--dtype int64" --seed 61 --members 4 --count 20000 --dtype int64
    reduce_vectors collected "--dtype float32 --no-switch" --seed 62 --members 3 --count 20000 --dtype float32
    pass "a group: by the switch, and without it"
}

stream() {
    local first second
    open_stream six --senders 2
    follow six h1 send1 - < <(lines_of 1 15)
    first=$sender
    follow six h2 send2 - < <(lines_of 2 15)
    second=$sender
    ends "$first" 0 six.send1
    ends "$second" 0 six.send2
    kill -INT "$receiver"
    ends "$receiver" 130 six.recv
    exact six 1=1-150 2=1-150
    pass "a stream of two senders: each line in one window"
}

# relay_listens: it takes connections.
relay_listens() {
    on h3 bash -c ": </dev/tcp/::1/4793" 2>/dev/null
}

# An ask-relayd on h3, which lab has none of: what h1 and h2 send is added up there, and goes on to h4.
relay() {
    local -r dir=$scratch/relay conf=$scratch/relayd.toml tls=$ASK_LAB_DIR/$name/tls/h3
    local relayd pid who
    cat >"$conf" <<TOML
name = "h3"
listen = "[::]:4793"
socket = "$scratch/relay.sock"
agent = "$ASK_LAB_DIR/$name/h3/agent.sock"
parents = ["2001:2:0:4::/64"]
tls_ca = "$tls/ca.pem"
tls_certificate = "$tls/certificate.pem"
tls_key = "$tls/key.pem"
TOML
    spawn "$scratch/relayd" h3 ask-relayd --config "$conf" </dev/null
    relayd=$spawned
    wait_for 10 relay_listens
    jq -n --arg relay "[$(address_of h3)]:4793" --arg h1 "$(address_of h1)" --arg h2 "$(address_of h2)" \
        '{relays: [{name: "r", address: $relay}], hosts: [{name: "h1", address: $h1, sends: 1, entry: "r"}, {name: "h2", address: $h2, sends: 1, entry: "r"}]}' \
        >"$scratch/plan.json"
    make_input "$dir" --seed 63 --senders 2 --tuples 10000 --keys 700
    start_task "$dir" relayed h4 "--placement $scratch/plan.json"
    while read -r pid who; do
        exit_of "$pid"
        ((code == 0)) || fail "by a relay $who ended with $code: $(tail -n 20 "$dir"/*.err)"
    done <"$dir/pids"
    cmp -s "$dir/recv.out" "$dir/expected.tsv" ||
        fail "by a relay: $(diff "$dir/recv.out" "$dir/expected.tsv" | head -n 8 | cut -c 1-120)"
    grep -q 'from 1 that sent here; 1 switch has aggregated' "$dir/recv.err" || fail "not by a relay: $(cat "$dir/recv.err")"
    kill -TERM "$relayd"
    exit_of "$relayd"
    ((code == 0)) || fail "ask-relayd ended with $code: $(cat "$scratch/relayd.err")"
    pass "by a relay, whose parents are a range"
}

shows() {
    on sw askctl status --json | jq -e --arg h1 "$(address_of h1)" 'any(.channels[]; .channel.host == $h1)' >/dev/null ||
        fail "the switch has no channel of h1: $(on sw askctl status --json | jq -c '[.channels[].channel]')"
    local code=0
    on h1 askctl doctor --json --agent-config "$ASK_LAB_DIR/$name/conf/h1.toml" --to "h4,[$(address_of h2)]:4791" >"$scratch/findings" || code=$?
    ((code == 0)) || fail "doctor ended with $code: $(jq -c '.findings[] | select(.level == "fault")' "$scratch/findings")"
    jq -e --arg h4 "packets of 1500 bytes get to h4 ($(address_of h4)) and back" 'any(.findings[]; .level == "ok" and (.text | contains($h4)))' \
        "$scratch/findings" >/dev/null || fail "doctor's way to h4: $(jq -c '.findings[] | select(.check == "path")' "$scratch/findings")"
    pass "askctl has addresses"
}

lab_up --hosts 4 --ipv6
group
shows
stream
relay
wait_for 20 no_tasks h1 h2 h3 h4
