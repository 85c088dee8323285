#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Fabrics all of whose switches aggregate: a task goes through its receiver's own switch, wherever its senders are and by
# whichever spine their packets come, under loss, while links are cut and mended; groups across leaves; what the status says
# that links carried is what the kernel counted at their ends; nothing is left of a lab whose daemons were killed.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

# Of the status, all links at one time.
look() {
    "$lab" status --name "$name" --json >"$scratch/status.json"
}

# carried FROM TO TYPES (data+long+fin): packets that entered the link from FROM towards TO, as the last look saw it.
carried() {
    jq --arg from "$1" --arg to "$2" --arg types "$3" '[.links[]
        | if .from == $from and .to == $to then .up elif .from == $to and .to == $from then .down else empty end
        | .[$types | split("+")[]].packets] | add' "$scratch/status.json"
}

# counter NODE NAME
counter() {
    on "$1" askctl counters --json | jq --arg name "$2" '.[] | select(.name == $name) | .value'
}

# crossing FROM TO COUNT: more packets of tuples have entered the link than that.
crossing() {
    look
    (($(carried "$1" "$2" data+long+var) > $3))
}

# A third of each input at a time: a packer keeps tuples until they fill packets, so that of each third some travel.
thirds() {
    head -n 8000 "$1"
    wait_for 60 test -e "$scratch/second"
    sed -n '8001,16000p' "$1"
    wait_for 60 test -e "$scratch/third"
    tail -n +16001 "$1"
}

# Channels are registered while leaves see each other by one spine, then go by the other, which is a way that there was not
# when they were registered, then by both.
across_leaves() {
    local -r dir=$scratch/leaves
    local by_s4
    lab_do chaos set --loss 3 --dup 3 --reorder 3 --seed 30
    make_input "$dir" --seed 8 --senders 6 --tuples 24000 --keys 4000 --op count --count-lines
    lab_do link s1 s3 down
    FEED=thirds start_task "$dir" words h4 "--op count --require-region --aggregators 16 --no-back" "--count --merge-window 0"
    wait_for 20 crossing s1 s4 0
    lab_do link s1 s3 up
    lab_do link s4 s1 down
    look
    by_s4=$(carried s1 s4 data+long+var)
    : >"$scratch/second"
    wait_for 20 crossing s1 s3 0
    lab_do link s1 s4 up
    : >"$scratch/third"
    finish_task "$dir"
    jq -e '.runs == 1 and .tuples_switch > 0 and .tuples_receiver.collision > 0' "$dir/recv.json" >/dev/null ||
        fail "leaves: not aggregated on the way: $(cat "$dir/recv.json")"
    look
    (($(carried s3 s2 data) > 0 && $(carried s4 s2 data) > 0 && by_s4 > 0)) || fail "leaves: a spine carried nothing: $(lab_do link)"
    # Only the receiver's own switch had the task.
    (($(counter s2 ack_new) > 0 && $(counter s1 ack_new) + $(counter s3 ack_new) + $(counter s4 ack_new) == 0)) ||
        fail "leaves: another switch aggregated, or s2 did not"
    [[ $(jq -c '[.links[].state] | unique' "$scratch/status.json") == '["up"]' ]] || fail "leaves: a link is not up"
    pass "a task across leaves, links cut and mended"
}

# kernel FILE: what the interfaces in the middle of the links have received.
kernel() {
    on chaos ip -stats -json link show >"$1"
}

# Before and after, around each look: what the status adds meanwhile is between the least and the most that the kernel can
# have seen. Of frames that a stack sent, its bytes are without the Ethernet header.
# shellcheck disable=SC2016 # variables of jq
readonly WITHIN='
    def received($ip; $port): first($ip[][] | select(.ifname == $port) | .stats64.rx);
    def sum($of; $field): $of | to_entries | map(.value | objects | .[$field]) | add;
    [range($new[0].links | length) as $at | ("up", "down") as $way | (if $way == "up" then "h" else "s" end + "\($at + 1)") as $port |
        {$port,
         packets: (sum($new[0].links[$at][$way]; "packets") - sum($old[0].links[$at][$way]; "packets")),
         bytes: (sum($new[0].links[$at][$way]; "bytes") - sum($old[0].links[$at][$way]; "bytes")),
         least: (received($c; $port).packets - received($b; $port).packets),
         most: (received($d; $port).packets - received($a; $port).packets),
         least_bytes: (received($c; $port).bytes - received($b; $port).bytes),
         most_bytes: (received($d; $port) as $to | received($a; $port) as $from |
             $to.bytes - $from.bytes + 14 * ($to.packets - $from.packets))}]'

# counted TASK: whatever the function sends is in the status as it is in the kernel's counters.
counted() {
    local moved
    kernel "$scratch/a"
    look
    kernel "$scratch/b"
    cp "$scratch/status.json" "$scratch/old.json"
    "$1"
    kernel "$scratch/c"
    look
    kernel "$scratch/d"
    moved=$(jq -n --slurpfile old "$scratch/old.json" --slurpfile new "$scratch/status.json" --slurpfile a "$scratch/a" \
        --slurpfile b "$scratch/b" --slurpfile c "$scratch/c" --slurpfile d "$scratch/d" "$WITHIN")
    jq -e 'length == 16 and all(.[]; .least <= .packets and .packets <= .most and .least_bytes <= .bytes and .bytes <= .most_bytes)' \
        <<<"$moved" >/dev/null || fail "links and kernel disagree: $(jq -c '.[]' <<<"$moved")"
    # Nothing of that could fail if little moved but what moves by itself.
    jq -e '(map(.most - .least) | add) * 10 < (map(.packets) | add)' <<<"$moved" >/dev/null ||
        fail "the kernel's counters leave too much room: $(jq -c '.[]' <<<"$moved")"
}

# since_then FROM TO TYPES: what has entered the link since the first look of `counted`.
since_then() {
    local now
    now=$(carried "$@")
    cp "$scratch/status.json" "$scratch/new.json"
    cp "$scratch/old.json" "$scratch/status.json"
    echo $((now - $(carried "$@")))
    cp "$scratch/new.json" "$scratch/status.json"
}

words() {
    make_input "$scratch/words" --seed 9 --senders 4 --tuples 12000 --keys 9000 --op count --count-lines
    run_task "$scratch/words" words h4 "--op count --aggregators 32 --no-back" "--count --merge-window 0"
}

vectors() {
    make_vectors "$scratch/vectors" --seed 10 --members 4 --count 60000 --dtype int32
    run_group "$scratch/vectors" vectors --dtype int32
}

counts() {
    local said
    lab_do chaos clear
    counted words
    # Of the senders 1 and 4 are on h1; an agent says what it sent.
    said=$(jq -s 'map(.packets_sent + .retransmissions) | add' "$scratch"/words/send[14].json)
    (($(since_then h1 s1 data+long+var+fin) == said)) ||
        fail "counts: h1 says that it sent $said packets, its link $(since_then h1 s1 data+long+var+fin)"
    counted vectors
    # Of each member's vector 171 chunks of 352 words, each sent once or more, and one result of each comes back.
    for host in h2 h3 h4; do
        (($(since_then $host "$([[ $host == h2 ]] && echo s1 || echo s2)" value) >= 171)) || fail "counts: no vector of $host: $(lab_do link)"
    done
    (($(since_then s1 h2 result) >= 171 && $(since_then h1 s1 data+long+var+fin) == 0)) || fail "counts: no results: $(lab_do link)"
    pass "what links carried"
}

leaf_spine() {
    lab_up --topology leaf-spine:2,2,2
    across_leaves
    wait_for 10 no_tasks h1 h2 h3 h4 s2
    counts
    lab_gone
}

# tells HOST SWITCH: its agent has that switch, and reaches it.
tells() {
    on "$1" askctl status --json | jq -e --arg switch "$2:4792" '.switch_address == $switch and .switch_reachable' >/dev/null ||
        fail "$1 is not told $2: $(on "$1" askctl status)"
}

# Down, and nothing is left.
lab_gone() {
    "$lab" down --name "$name"
    # grep and pgrep find nothing where all is well, and say so by their exit codes.
    [[ -z $(ip netns list | grep "^ask-$name-" || true) ]] || fail "namespaces left: $(ip netns list)"
    [[ -z $(findmnt --noheadings --list --output TARGET | grep -F "$ASK_LAB_DIR/" || true) ]] || fail "mounts left"
    [[ ! -e $ASK_LAB_DIR ]] || fail "files left: $(find "$ASK_LAB_DIR")"
    [[ -z $(pgrep -f -- "--config $ASK_LAB_DIR/" || true) ]] || fail "daemons left"
}

# BT(8): seven switches, each with a host for a relay.
tree() {
    local -r dir=$scratch/tree
    lab_up --topology tree:2,3 --relays
    tells h1 198.19.128.4
    tells h4 198.19.128.7
    tells h5 198.19.128.1
    tells r2 198.19.128.2
    # To a relay's host from below its switch and from beyond it.
    make_input "$dir" --seed 11 --senders 3 --tuples 5000 --keys 900 --op count --count-lines
    run_task "$dir" words r2 "--op count --require-region --aggregators 32 --no-back" "--count --merge-window 0"
    (($(counter s2 ack_new) > 0 && $(counter s4 ack_new) + $(counter s1 ack_new) == 0)) || fail "tree: s2 did not aggregate"
    # A crash of some of each kind.
    lab_do kill s4 -KILL
    lab_do kill r7 -KILL
    lab_do kill chaos -KILL
    wait_for 10 injector_gone
    "$lab" status --name "$name" --json | jq -e 'all(.links[]; .up == null)' >/dev/null || fail "tree: counts without an injector"
    lab_gone
    pass "tree:2,3 --relays"
}

injector_gone() {
    "$lab" status --name "$name" --json | jq -e '.nodes[] | select(.node == "chaos") | .running | not' >/dev/null
}

[[ $(type -t "${1-}") == function && $1 =~ ^(leaf_spine|tree)$ ]] || fail "usage: $0 leaf_spine|tree"
"$1"
