#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A stream by a plan, through relays in a tree: every tuple is in one window, though a relay and a switch are lost, and a member comes
# that the plan does not know.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

# s1 is the root, where h3 receives; s2 is h1's leaf and s3 h2's, each with a relay.

# receives: with one relay at least.
by_relays() {
    on h3 askctl tasks --json | jq -e --argjson n "$1" \
        'any(.[]; .role == "receiver" and (.id | startswith("tree-w")) and ((.relays // []) | length) == $n)' >/dev/null
}

# goes_on N: N more windows than there are.
goes_on() {
    wait_for 30 committed tree $(($(rows tree | wc -l) + $1))
}

# sends SENDER HOST LINES... : what that command prints, from now on; sets senders[SENDER].
sends() {
    spawn "$scratch/tree.send$1" "$2" ask-send --follow --task tree --to h3 - < <("${@:3}")
    senders[$1]=$spawned
}

lab_up --topology tree:2,2 --relays
# Two members at each of h1 and h2, and the switches that they are at aggregate.
"$lab" status --name "$name" --json | jq '.topology | .host |= map(if .name != "h3" then .load = 2 else . end)
        | .switch |= map(.available = (.name != "s1"))' |
    "$build/bin/ask-plan" - --receiver h3 --k 2 --json >"$scratch/plan.json"
jq -e '.placement | (.relays | length) == 2 and all(.hosts[]; .sends == 2 and .entry != "")' "$scratch/plan.json" >/dev/null ||
    fail "another plan than thought: $(jq -c .placement "$scratch/plan.json")"
refused 2 'go by a plan that is given' h3 ask-recv --task tree --every 1s --senders 4 --placement auto
refused 2 'needs all senders' h3 ask-recv --task tree --every 1s --senders 4 --placement "$scratch/plan.json" --allow-incomplete
spawn "$scratch/tree.recv" h3 ask-recv --task tree --every 1s --out "$scratch/tree" --senders 4 --placement "$scratch/plan.json" </dev/null
receiver=$spawned
for sender in 1 2 3 4; do sends "$sender" "h$(((sender + 1) / 2))" lines_until_enough tree "$sender"; done
wait_for 15 committed tree 2
wait_for 10 by_relays 2
pass "windows through two relays"

# While somebody is there of whom the plan knows nothing. Before relays are lost: without any nobody asks for whom they are.
sends 5 h3 lines_of 5 30
ends "${senders[5]}" 0 tree.send5
grep -q 'no relays: .*members are not the hosts that the plan is for' "$scratch/tree.recv.err" ||
    fail "it is not said that there are no relays: $(cat "$scratch/tree.recv.err")"
wait_for 10 by_relays 2
pass "a member that the plan does not know"

relay=$(jq -r '.placement.relays[0].name' "$scratch/plan.json")
lab_do kill "r${relay#s}.relayd" -KILL
goes_on 2
wait_for 10 by_relays 1
lab_do restart "r${relay#s}.relayd"
pass "a relay killed: windows go on without it"

lab_do kill s3 -KILL
unload s3
lab_do restart s3
goes_on 2
pass "a switch's maps lost"

enough tree
for sender in 1 2 3 4; do ends "${senders[sender]}" 0 "tree.send$sender"; done
kill -INT "$receiver"
ends "$receiver" 130 tree.recv
exact tree "$(all_of tree 1)" "$(all_of tree 2)" "$(all_of tree 3)" "$(all_of tree 4)" 5=1-300
pass "exact"
