#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Hosts with IPv6: ipv6_test.sh answers|small|mixed
#   answers  tasks from host to host and by the switch, over bad links, an agent that restarts, what is refused by name
#   small    the least MTU that IPv6 allows
#   mixed    some hosts with IPv4 and some with IPv6 on one switch, tasks of both at the same time

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/ipv6.sh
source "$root/tests/e2e/ipv6.sh"

readonly case=${1:?}

# added_up DIR: the switch has, for each sender that is not on the receiver's host.
added_up() {
    jq -e 'all(.senders[] | select(.name | startswith("h3") | not); .tuples_switch > 0)' "$1/recv.json" >/dev/null ||
        fail "the switch did not add up for each sender: $(jq -c '[.senders[] | {name, tuples_in, tuples_switch}]' "$1/recv.json")"
}

has_no_ipv4() {
    [[ -z $(on "$1" ip -4 -oneline address show scope global) ]] || fail "$1 has an IPv4 address: $(on "$1" ip -4 address)"
}

# both_ways DIR ID: from host to host, and by the switch.
both_ways() {
    run_task "$1" "$2-direct" h3 --no-switch "--merge-window 0"
    run_task "$1" "$2" h3 "" "--merge-window 0"
    added_up "$1"
}

bad_links() {
    lab_do chaos set --loss 1 --dup 1 --reorder 1 --corrupt 0.2 --seed 6 >/dev/null
}

answers() {
    local -r dir=$scratch/answers words=$scratch/words
    local node
    lab_up --hosts 3 --ipv6 --chaos
    for node in h1 h2 h3 sw; do has_no_ipv4 "$node"; done
    on h1 askctl status --json | jq -e '.address == "2001:2:0:1::2"' >/dev/null || fail "h1: $(on h1 askctl status --json)"
    make_input "$dir" --seed 96 --senders 3 --tuples 20000 --keys 1500
    both_ways "$dir" plain
    pass "host to host and by the switch: exact"

    bad_links
    both_ways "$dir" bad
    make_input "$words" --seed 97 --senders 2 --tuples 20000 --keys 3000 --count-lines
    run_task "$words" words h3 "--op count" "--count"
    lab_do chaos clear >/dev/null
    pass "packets lost, doubled, late and damaged: exact"

    lab_do restart h1
    run_task "$dir" again h3 "" "--merge-window 0"
    added_up "$dir"
    pass "an agent that was restarted sends again"

    printf 'a\t1\n' >"$scratch/one.tsv"
    refused 'fe80::1 is link-local' ask-send --task t1 --to fe80::1 --deadline 20 "$scratch/one.tsv"
    refused 'ff02::1 is a multicast address' ask-send --task t2 --to '[ff02::1]:4791' --deadline 20 "$scratch/one.tsv"
    refused '198\.18\.3\.2.* has IPv4 alone, this host .*IPv6 alone' ask-send --task t3 --to 198.18.3.2 --deadline 20 "$scratch/one.tsv"
    pass "link-local, multicast and IPv4 receivers are refused by name"

    # An agent says what its address has to be, before it does anything.
    # It ends with an error: which, is what is looked at.
    on h2 timeout $((10 * ${ASK_TEST_PATIENCE:-1})) "$build/bin/ask-agentd" --config "$ASK_LAB_DIR/$name/conf/h2.toml" --address fe80::2 >"$scratch/own" 2>&1 || true
    grep -q 'fe80::2 is link-local' "$scratch/own" || fail "of a link-local address: $(cat "$scratch/own")"
    pass "an agent takes no link-local address"
}

small() {
    local -r dir=$scratch/small
    lab_up --hosts 3 --ipv6 --mtu 1280
    make_input "$dir" --seed 98 --senders 2 --tuples 20000 --keys 1500
    both_ways "$dir" small
    pass "MTU 1280: host to host and by the switch, exact"
}

# family_task FROM TO: a task between two hosts of one family, beside one of the other's.
family_task() {
    local -r dir=$scratch/$1
    SENDER_HOST=$1 run_task "$dir" "from-$1" "$2" "" "--merge-window 0"
    jq -e 'all(.senders[]; .tuples_switch > 0)' "$dir/recv.json" >/dev/null || fail "the switch did not add up for $1"
}

four_to_four() { family_task h1 h2; }
six_to_six() { family_task h3 h4; }

mixed() {
    local host
    lab_up --hosts 4 --ipv6-from 3
    for host in h3 h4; do has_no_ipv4 "$host"; done
    for host in h1 h3; do make_input "$scratch/$host" --seed "10${host#h}" --senders 2 --tuples 40000 --keys 1500; done
    beside_each_other four_to_four six_to_six
    pass "a task of hosts with IPv4 and one of hosts with IPv6 by one switch, at the same time: exact"

    # Of either, to the other.
    printf 'a\t1\n' >"$scratch/one.tsv"
    refused 'h3 .*has IPv6 alone, this host .*IPv4 alone' ask-send --task t4 --to h3 --deadline 20 "$scratch/one.tsv"
    pass "to a host of the other family: refused by name"
}

"$case"
wait_for 20 no_tasks h1 h2 h3 sw
