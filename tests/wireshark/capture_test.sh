#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# capture_test.sh: what is captured at the routers of a lab while tasks of all kinds and groups run, decodes whole: no frame is an
# error of the script, of another version or malformed, and every type of packet is there. One task is cut out of it.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

readonly script=$root/tools/wireshark/ask.lua
export HOME=$scratch  # no plugins or settings of whoever runs this

dissect() {
    tshark -2 -X "lua_script:$script" -r "$@" 2>"$scratch/tshark.err" || fail "tshark: $(<"$scratch/tshark.err")"
}

# Only routers: a switch's XDP program and AF_XDP sockets come before what a capture sees.
capture() {
    local node
    captures=()
    for node in s2 s3; do
        spawn "$scratch/$node" "$node" tshark -q -i any -f 'udp port 4790' -w "$scratch/$node.pcapng" </dev/null
        captures+=("$spawned")
        wait_for 20 grep -q 'Capturing on' "$scratch/$node.err"
    done
    wait_for 20 test -s "$scratch/s3.pcapng"
}

tuples() {
    local -r dir=$scratch/in
    make_input "$dir" --seed 3 --senders 2 --tuples 3000 --keys 500
    start_task "$dir" one h3 "" "--merge-window 0"
    finish_task "$dir"
    # Longer than any slot, than what a back level takes, and than a packet.
    perl -e 'print "k" x $_, "\t$_\n" for 1, 20, 60, 200, 5000' >"$scratch/long.tsv"
    spawn "$scratch/long" h3 ask-recv --task long --senders 1 --deadline 20 </dev/null
    local -r receiver=$spawned
    on h2 ask-send --task long --to h3 "$scratch/long.tsv" 2>"$scratch/long-send.err" || fail "$(<"$scratch/long-send.err")"
    exit_of "$receiver"
    ((code == 0)) || fail "$(<"$scratch/long.err")"
}

groups() {
    make_vectors "$scratch/sum" --seed 3 --members 3 --count 30000
    lab_do chaos set --loss 3 --dup 3 --seed 5
    start_group "$scratch/sum" sum
    finish_group "$scratch/sum"
    lab_do chaos clear
}

lab_up --topology tree:2,2 --blue s1
capture
tuples
groups
for pid in "${captures[@]}"; do kill -INT "$pid"; done
for pid in "${captures[@]}"; do exit_of "$pid"; done

for node in s2 s3; do
    dissect "$scratch/$node.pcapng" -T fields -E occurrence=f -e ask.type -e ask.task -e _ws.expert.message -e _ws.malformed -e ip.src >"$scratch/$node.fields"
    ! grep -m 3 -iE 'lua error|version 0x|not all there|should have|no such type|are no rows|beyond its' "$scratch/$node.fields" >&2 || fail "frames that do not decode at $node (above)"
    [[ $(dissect "$scratch/$node.pcapng" -Y '!ask || ask.malformed || ask.bad_version || _ws.malformed' | wc -l) == 0 ]] || fail "frames that do not decode at $node"
done
frames=$(cat "$scratch"/s?.fields | wc -l)
types=$(cut -f 1 "$scratch"/s?.fields | sort -nu | paste -sd ' ')
pass "$frames frames of types $types decode"
# NEED, HELD and HAVE are of losses, which may be others each time; dissector_test.sh has them for certain.
[[ " $types " == *" 1 2 3 4 5 16 17 "* ]] || fail "types $types: some are missing"

# As docs/operations.md has it.
instance=$(on h3 askctl tasks --all --json | jq -r '.[] | select(.id == "one") | .instance')
[[ -n $instance ]] || fail "no instance: $(on h3 askctl tasks --all --json | jq -c '.[0]')"
dissect "$scratch/s2.pcapng" -Y "ask.task == $instance" -w "$scratch/one.pcapng"
dissect "$scratch/one.pcapng" -T fields -e ask.task | sort -u >"$scratch/instances"
[[ $(wc -l <"$scratch/instances") == 1 ]] || fail "other tasks: $(<"$scratch/instances")"
(($(dissect "$scratch/one.pcapng" | wc -l) < $(wc -l <"$scratch/s2.fields"))) || fail "nothing was left out"
pass "one task of a capture"
