#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A host with a valid certificate, and one of another tenant, call a relay, its agent, its switch and the receiver in the middle of
# a task that is none of theirs, and send packets for it. Each is refused by name, and the task's answer is exact.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# The stranger is h2, behind s3; the task goes from h1 by the relay beside s2 to h3, which is at the root.
shows=h2
call() {
    on h2 env ASK_TLS="$ASK_LAB_DIR/$name/tls/$shows" "$build/tests/ask-e2e-call" "$1" "ask.v1.$2" "$3"
}

# refused CODE TEXT TARGET METHOD JSON
refused() {
    local -r code=$1 text=$2
    shift 2
    if call "$@" >/dev/null 2>"$scratch/refusal"; then fail "$2 was not refused: ${3:0:400}"; fi
    grep -qE "^$code: .*$text" "$scratch/refusal" || fail "$2 said '$(head -c 400 "$scratch/refusal")', not '$code: $text'"
}

under_way() {
    on r2 askctl tasks --json | jq -e 'any(.[]; .role == "receiver" and .state == "streaming")' >/dev/null
}

# The first half at once, the second on request.
halves() {
    local -r all=$(wc -l <"$1")
    head -n $((all / 2)) "$1"
    wait_for 60 test -e "$scratch/rest"
    tail -n +$((all / 2 + 1)) "$1"
}

# task_at NODE: of what it receives, {id, instance}; the instance as a call has it.
task_at() {
    local id instance
    read -r id instance < <(on "$1" askctl tasks --json | jq -r '.[] | select(.role == "receiver") | "\(.id) \(.instance)"')
    printf '{"id": "%s", "instance": "%u"}' "$id" "$instance"
}

begin() {
    dir=$scratch/live
    "$lab" status --name "$name" --json | jq '.topology' >"$scratch/tree.json"
    relay=$(jq -r '.switch[] | select(.name == "s2") | .relay' "$scratch/tree.json")
    relay_host=${relay%:*}
    relay_agent=$relay_host:4791
    receiver_agent=$(jq -r '.host[-1].address' "$scratch/tree.json"):4791
    switch=$(jq -r '.switch[] | select(.name == "s2") | .control' "$scratch/tree.json")
    jq --arg relay "$relay" '{relays: [{name: "s2", address: $relay}], hosts: [{name: "h1", address: .host[0].address, sends: 1, entry: "s2"}]}' \
        "$scratch/tree.json" >"$scratch/plan.json"
    make_input "$dir" --seed 5 --senders 1 --tuples 4000 --keys 300
    FEED=halves SENDER_HOST=h1 start_task "$dir" live h3 "--placement $scratch/plan.json"
    wait_for 20 under_way
    # What a stranger would have to guess.
    below=$(task_at r2)
    above=$(task_at h3)
}

# join_of TASK EDIT: by a channel of its own.
join_of() {
    jq -c --argjson host $((198 << 24 | 18 << 16 | 2 << 8 | 2)) '{instance, sender: "77", sender_name: "h1", first_seq: "1",
        incarnation: 1, channel: {host: $host, port: 49352}}' <<<"$1" | jq -c "${2:-.}"
}

joins_what_is_not_its_own() {
    local fake
    fake=$(printf 'nonsense-nonsense' | base64)
    refused PERMISSION_DENIED 'is not for h2' "$relay_agent" Agent/Lookup "$(jq -c '{task_id: .id}' <<<"$below")"
    refused PERMISSION_DENIED 'is not for h2' "$relay_agent" Agent/Lookup "$(jq -c --arg token "$fake" '{task_id: .id, token: $token}' <<<"$below")"
    refused PERMISSION_DENIED 'is not for h2' "$relay_agent" Agent/Join "$(join_of "$below")"
    refused PERMISSION_DENIED 'is not for h2' "$relay_agent" Agent/Join "$(join_of "$below" '.relay = "s4"')"
    refused PERMISSION_DENIED 'h2' "$receiver_agent" Agent/Lookup '{"task_id": "live"}'
    refused PERMISSION_DENIED 'does not expect a relay from h2' "$receiver_agent" Agent/Join "$(join_of "$above" '.relay = "s2"')"
    refused PERMISSION_DENIED 'does not expect a relay from h2' "$receiver_agent" Agent/Join \
        "$(join_of "$above" ".relay = \"s9\" | .token = \"$fake\"")"
    refused PERMISSION_DENIED 'has a placement, by which h2 .* does not send to its receiver' "$receiver_agent" Agent/Join "$(join_of "$above")"
    # By a channel of h1's.
    refused PERMISSION_DENIED 'not for h2' "$relay_agent" Agent/Join "$(join_of "$below" '.channel.host -= 256')"
}

# For somebody else, whose number it would have to know.
ends_what_is_not_its_own() {
    local task
    for task in "$relay_agent $below" "$receiver_agent $above"; do
        call "${task%% *}" Agent/Leave "$(jq -c '{instance, sender: "1", reason: "enough", code: 7, lost_relays: ["s2"]}' \
            <<<"${task#* }")" >/dev/null 2>&1 || true # whatever it says: the task's answer shows that it did nothing
        refused PERMISSION_DENIED 'on its own host' "${task%% *}" Agent/CancelTask "$(jq -c '{task_id: .id}' <<<"${task#* }")"
    done
    call "$switch" Switch/CloseTask "$(jq -c '{instance}' <<<"$below")" >/dev/null
    refused NOT_FOUND 'no task with instance' "$switch" Switch/ConfirmCopy "$(jq -c '{instance, epoch: "0"}' <<<"$below")"
    call "$switch" Switch/GetStatus '{}' | jq -e '.tasks == []' >/dev/null || fail "the switch shows a stranger the relay's task"
    call "$relay" Relay/GetStatus '{}' | jq -e '.relays == []' >/dev/null || fail "the relay shows a stranger others' tasks"
}

# order EDIT: one that the relay takes, but for what is changed.
order() {
    jq -nc '{task_id: "own", instance: "5", receiver: "198.18.2.2:4791", op: "OPERATOR_SUM", deadline_ms: 1000, own_task_id: "relayed-own",
        own_token: "YQ==", senders: 1, geometry: {short_slots: 16, groups: 8, m: 2, rows: 1}, parent: "198.18.2.2:4791",
        parent_task_id: "own", parent_token: "Yg==", name: "s2", wait_ms: 100}' | jq -c "$1"
}

orders_nonsense() {
    local edit
    for edit in '.senders = 4294967295' '.deadline_ms = 4294967295' '.name = "s" * 60000' '.task_id = "t" * 60000' '.parent = ("9" * 60000)' \
        '.own_token = ("YWFh" * 20000)' '.geometry.rows = 4294967295' '.op = "OPERATOR_UNSPECIFIED"'; do
        refused INVALID_ARGUMENT . "$relay" Relay/OpenRelay "$(order "$edit")"
    done
    refused RESOURCE_EXHAUSTED 'message larger than max' "$relay" Relay/OpenRelay "$(order '.name = "s" * 65536')"
    refused PERMISSION_DENIED 'may not act for that host' "$relay" Relay/OpenRelay "$(order '.receiver = "198.18.3.2:4791"')"
    refused PERMISSION_DENIED 'is neither its receiver nor one that this relay may send to' "$relay" Relay/OpenRelay \
        "$(order '.parent = "10.9.8.7:4791"')"
}

nothing_of_it() {
    [[ $(call "$relay" Relay/GetStatus '{}' | jq -r '[.relays[] | select(.state != "failed")] | length') == 0 ]]
}

# has_order INSTANCE: the relay has it, and its agent what is to come from below, so that it waits for its parent.
has_order() {
    call "$relay" Relay/GetStatus '{}' | jq -e --arg instance "$1" 'any(.relays[]; .instance == $instance and .state == "opening")' >/dev/null &&
        on r2 askctl tasks --json | jq -e 'any(.[]; .id == "relayed-own" and .role == "receiver" and .state == "waiting for senders")' >/dev/null
}

# An order for a task that its parent does not have, whose caller goes away in the middle; the next one ends it.
goes_away() {
    spawn "$scratch/order" h2 env ASK_TLS="$ASK_LAB_DIR/$name/tls/h2" "$build/tests/ask-e2e-call" "$relay" \
        ask.v1.Relay/OpenRelay "$(order '.wait_ms = 10000 | .deadline_ms = 60000')" </dev/null
    wait_for 10 has_order 5
    kill -KILL "$spawned"
    exit_of "$spawned"
    ((code == 137)) || fail "an order that takes long was answered: $code: $(cat "$scratch/order.out" "$scratch/order.err")"
    # The older one is ended for it, which takes its agent and its switch a moment: it waits for that, a third of its deadline.
    call "$relay" Relay/OpenRelay "$(order '.instance = "6" | .deadline_ms = 9000')" | jq -e .opening >/dev/null || fail "the newer order was not taken"
    # Beside one that has a reserve: the sum of both would be a small number.
    refused RESOURCE_EXHAUSTED 'no room for [0-9]+ MiB more' "$relay" Relay/OpenRelay \
        "$(order '.task_id = "huge" | .instance = "7" | .reserve_bytes = "18446744073709551615"')"
    refused ABORTED 'that instance has ended here|was opened again' "$relay" Relay/OpenRelay "$(order .)"
    wait_for 20 nothing_of_it
    call "$relay" Relay/GetStatus '{}' | jq -e '.relays | length > 0 and all(.[]; .error | test("in use|older run") | not)' >/dev/null ||
        fail "an order met the one before: $(call "$relay" Relay/GetStatus '{}' | jq -c '[.relays[].error]')"
}

# packet TYPE SEQ EDIT
packet() {
    on h2 "$build/tests/ask-e2e-packet" "$(jq -nc --arg type "$1" --argjson seq "$2" --arg to "$relay_host:4790" --argjson task "$below" \
        '{type: $type, seq: $seq, from: "198.18.2.2:49352", to: $to, instance: $task.instance, incarnation: 1,
          secret: "00112233445566778899aabbccddeeff", mark: [0, 0], key: "evil", value: 5, items: 1}' | jq -c "$3")"
}

bad_ports() {
    on s2 askctl counters --json | jq '.[] | select(.name == "bad_port") | .value'
}

has_more() {
    (($(bad_ports) > $1))
}

sends_packets() {
    local before seq
    before=$(bad_ports)
    packet data 1 '.channel = "198.18.1.2:49152"'
    wait_for 10 has_more "$before"
    for seq in 1 2 2 2; do
        packet fin "$seq" '.channel = "198.18.1.2:49152"'
        packet fin "$seq" .
        packet data "$seq" .
    done
}

is_of_another_tenant() {
    local -r tls=$ASK_LAB_DIR/$name/tls
    "$build/bin/askctl" ca issue "$tls" --tenant ads other=198.18.2.2 >/dev/null
    local shows=other
    refused NOT_FOUND 'no task' "$relay_agent" Agent/Lookup "$(jq -c '{task_id: .id}' <<<"$below")"
    refused NOT_FOUND 'no task live' "$receiver_agent" Agent/Lookup '{"task_id": "live"}'
    refused NOT_FOUND . "$relay_agent" Agent/Join "$(join_of "$below")"
    refused 'NOT_FOUND|PERMISSION_DENIED' . "$receiver_agent" Agent/Join "$(join_of "$above" '.relay = "s2"')"
    refused PERMISSION_DENIED 'may not act for that host' "$relay" Relay/OpenRelay "$(order '.receiver = "198.18.3.2:4791"')"
    call "$relay" Relay/GetStatus '{}' | jq -e '.relays == []' >/dev/null || fail "the relay shows another tenant tasks"
}

lab_up --topology tree:2,2 --relays
begin
joins_what_is_not_its_own
ends_what_is_not_its_own
orders_nonsense
goes_away
sends_packets
is_of_another_tenant
: >"$scratch/rest"
while read -r pid who; do
    exit_of "$pid"
    ((code == 0)) || fail "$who ended with $code: $(tail -n 20 "$dir"/*.err)"
done <"$dir/pids"
cmp -s "$dir/recv.out" "$dir/expected.tsv" || fail "wrong answer: $(diff "$dir/recv.out" "$dir/expected.tsv" | head -n 8 | cut -c 1-120)"
jq -e '.runs == 1 and .complete' "$dir/recv.json" >/dev/null || fail "$(cat "$dir/recv.json")"
wait_for 20 no_tasks h1 h2 h3 r2
pass "strangers at a relay"
