#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Hosts with IPv6, oddly: how an address may be written and how not, two addresses of one number, and neighbours and addresses
# that go away and come back.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/ipv6.sh
source "$root/tests/e2e/ipv6.sh"

# Of these two hosts' addresses the numbers are one: the first is h2's.
readonly h2=2001:2:0:2::2 double=2001:2:0:1::266:ed05

# send_to HOST ID: a tuple from h1 to h2, which it calls HOST.
send_to() {
    local id=$2 receiver
    spawn "$scratch/$id" h2 ask-recv --task "$id" --senders 1 --from '2001:2:0:1:0:0:0:2,h3' --deadline 20 </dev/null
    receiver=$spawned
    on h1 ask-send --task "$id" --to "$1" --deadline 20 --quiet "$scratch/one.tsv" || fail "--to $1 failed"
    exit_of "$receiver"
    ((code == 0)) || fail "the receiver of $id ended with $code: $(cat "$scratch/$id.err")"
    cmp "$scratch/$id.out" "$scratch/one.tsv" || fail "--to $1: $(cat "$scratch/$id.out")"
}

spellings() {
    local to i=0
    for to in "$h2" 2001:0002:0:2:0000:0:0:2 '[2001:2:0:2:0::2]:4791' 2001:2:0:2::0.0.0.2; do
        send_to "$to" "spelt$((i += 1))"
    done
    for to in ::1 '[::1]:4791' :: ff02::1 fe80::1 'fe80::1%eth0' '[fe80::1%eth0]:4791' 2001:2:0:2::/64 2001:2:0:2::g '[2001:2:0:2::2' \
        '[]:4791' "[$h2]:0" '[h2]:4791' ::ffff:198.18.2.2 240.1.2.3 240.1.2.3:4791; do
        refused '^ask-send: .*'"${to//[^0-9a-z:.]/.*}" ask-send --task no --to "$to" --deadline 20 "$scratch/one.tsv"
    done
    pass "an address in all its spellings is one host's; what is none is refused by name"
}

one_number() {
    refused "$h2 and $double have the same number 2[0-9.]*: give one of the hosts another address" \
        ask-send --task double --to "$double" --deadline 20 "$scratch/one.tsv"
    send_to "$h2" after-double
    pass "a second address of a number is refused by name, and the first goes on"
}

forget_neighbours() {
    local i
    for i in 1 2 3; do on sw ip -6 neighbour flush dev "p$i"; done
    on h1 ip -6 neighbour flush dev eth0
    on h3 ip -6 neighbour flush dev eth0
}

neighbours() {
    receive kept kept --senders 1
    hold kept.h1 h1 kept --merge-window 0
    head -n 5000 "$scratch/in/in1.tsv" >&9
    wait_for 20 sent_at_least 1
    forget_neighbours
    tail -n +5001 "$scratch/in/in1.tsv" >&9
    exec 9>&-
    exit_of "$sender"
    ((code == 0)) || fail "the sender ended with $code: $(cat "$scratch/kept.h1.err")"
    exit_of "$receiver"
    ((code == 0)) || fail "the receiver ended with $code: $(cat "$scratch/kept.err")"
    cmp "$scratch/kept.out" "$scratch/in/expected.tsv" || fail "wrong answer once neighbours were forgotten"
    pass "neighbours are forgotten in mid-task: exact"
}

addresses() {
    on h1 ip -6 address add 2001:2:0:1::77/64 dev eth0 nodad preferred_lft 0
    on h1 ip -6 address add 2001:2:0:1::78/64 dev eth0 nodad
    send_to h2 two-addresses
    on h1 ip -6 address delete 2001:2:0:1::2/64 dev eth0
    on h1 ip -6 address add 2001:2:0:1::2/64 dev eth0 nodad
    send_to h2 back-again
    lab_do restart h1
    on h1 ip -6 address delete 2001:2:0:1::78/64 dev eth0
    send_to h2 one-again
    pass "an address beside another, one that goes and comes back"
}

lab_up --hosts 3 --ipv6
printf 'a\t1\n' >"$scratch/one.tsv"
make_input "$scratch/in" --seed 99 --senders 1 --tuples 10000 --keys 900
spellings
one_number
neighbours
addresses
wait_for 20 no_tasks h1 h2 h3 sw
