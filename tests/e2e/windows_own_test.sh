#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A stream on its senders' own switches, two leaves of a fabric: every tuple is in one window, whatever dies of a switch.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

# Leaf s1 has h1 and h2, s2 has h3 and h4, which receives; the spine is s3.

# aggregates SWITCH: it has answered packets of tuples itself.
aggregates() {
    on "$1" askctl counters --json | jq -e 'any(.[]; .name == "ack_new" and (.value | tonumber) > 0)' >/dev/null
}

# on_both: some run is open on both leaves.
on_both() {
    on h4 askctl tasks --json | jq -e 'any(.[]; .role == "receiver" and (.switches | length) == 2)' >/dev/null
}

# goes_on N: N more windows than there are.
goes_on() {
    wait_for 20 committed own $(($(rows own | wc -l) + $1))
}

# done_without: a window has been opened that did not get it.
done_without() {
    grep -q "not opened on a sender's own switch" "$ASK_LAB_DIR/$name/logs/h4.log"
}

lab_up --topology leaf-spine:2,1,2
open_stream own --senders 3 --switches own
for host in 1 2 3; do
    follow own "h$host" "send$host" - < <(lines_until_enough own "$host")
    senders[host]=$sender
done
wait_for 10 committed own 2
wait_for 10 on_both
# Of a window that is open there nothing may have been sent yet, and those before may have begun again without.
wait_for 10 aggregates s1
wait_for 10 aggregates s2

# Its programs go on, and what they have waits for it; the window that is opened meanwhile does without.
lab_do kill s1 -KILL
wait_for 10 done_without
lab_do restart s1
goes_on 2
wait_for 10 on_both
pass "a switch's daemon killed and restarted"

lab_do kill s2 -KILL
unload s2
lab_do restart s2
goes_on 2
wait_for 10 on_both
pass "a switch's maps lost"

enough own
for host in 1 2 3; do ends "${senders[host]}" 0 "own.send$host"; done
kill -INT "$receiver"
ends "$receiver" 130 own.recv
grep -q 'no switch aggregates for h[12] ' "$scratch/own.recv.err" || fail "it does not say who went without a switch: $(cat "$scratch/own.recv.err")"
exact own "$(all_of own 1)" "$(all_of own 2)" "$(all_of own 3)"
pass "exact"
