#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Whoever does not keep to the protocol: joins twice, never finishes, sends under another's name, for a task that is over,
# or as what a host was before it was restarted. A stranger on h1 makes any call and sends any packet; the answers of the
# others are exact, and each attempt ends where the protocol says.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly receiver_agent=198.18.3.2:4791 switch=198.18.1.1:4792
# The stranger's channel: h1's address as a number, and a port that h1's agent does not use.
readonly stranger_host=3323068674 stranger_port=49352

# operator_call TARGET METHOD JSON, as whoever may look at everything.
operator_call() {
    on h1 "$build/tests/ask-e2e-call" "$1" "ask.v1.$2" "$3"
}

# call TARGET METHOD JSON, from $caller, with its certificate, or that of $shows.
caller=h1 shows=
call() {
    on "$caller" env ASK_TLS="$ASK_LAB_DIR/$name/tls/${shows:-$caller}" "$build/tests/ask-e2e-call" "$1" "ask.v1.$2" "$3"
}

# refused CODE TEXT TARGET METHOD JSON
refused() {
    local -r code=$1 text=$2
    shift 2
    if call "$@" >/dev/null 2>"$scratch/refusal"; then fail "$2 was not refused: $3"; fi
    grep -qE "^$code: .*$text" "$scratch/refusal" || fail "$2 said '$(cat "$scratch/refusal")', not '$code: $text'"
}

# channel INCARNATION: as the stranger registers and joins with it.
channel() {
    jq -nc --argjson host "$stranger_host" --argjson port "$stranger_port" --argjson incarnation "$1" \
        '{channel: {host: $host, port: $port}, incarnation: $incarnation}'
}

# look_up ID: $offer is what the receiver's agent says of the task.
look_up() {
    offer=$(call "$receiver_agent" Agent/Lookup "{\"task_id\": \"$1\", \"wait_ms\": 2000}")
}

# join_as SENDER INCARNATION: the order to join the task of $offer.
join_as() {
    channel "$2" | jq -c --arg sender "$1" --argjson offer "$offer" '. + {instance: $offer.instance, sender: $sender,
        sender_name: "stranger", first_seq: "1", registered: $offer.mark}'
}

# packet TYPE SEQ [EDIT]: the stranger's packet of $offer and $joined, changed by a jq program.
packet() {
    local order
    order=$(jq -nc --arg type "$1" --argjson seq "$2" --argjson offer "$offer" --arg secret "$secret" --argjson port "$stranger_port" \
        '{type: $type, seq: $seq, from: "198.18.1.2:\($port)", to: "198.18.3.2:4790", instance: $offer.instance,
          incarnation: 1, secret: $secret, mark: [0, 0], key: "evil", value: 5, items: 1}' | jq -c "${3:-.}")
    on h1 "$build/tests/ask-e2e-packet" "$order"
}

# counted NODE COUNTER: how often.
counted() {
    on "$1" askctl counters --json | jq --arg name "$2" '.[] | select(.name == $name) | .value'
}

more_than() {
    (($(counted "$1" "$2") > $3))
}

# dropped COUNTER COMMAND... : the switch drops what the command sends, under that name.
dropped() {
    local -r counter=$1
    local before
    shift
    before=$(counted sw "$counter")
    "$@"
    wait_for 10 more_than sw "$counter" "$before"
}

# log_all NODE... : whatever there is to be said, from here on.
log_all() {
    local node
    for node; do
        sed -i '1i log_level = "trace"' "$ASK_LAB_DIR/$name/conf/$node.toml"
        lab_do kill "$node" -HUP
        wait_for 10 grep -q 'changed: log_level' "$ASK_LAB_DIR/$name/logs/$node.log"
    done
}

# never_logged WHAT HEX: none of the ways in which these 16 bytes could have been written is in any log.
never_logged() {
    local form escaped
    # shellcheck disable=SC2001 # a pattern of two characters
    escaped=$(sed 's/../\\x&/g' <<<"$2")
    local -a forms=("$2" "${2:0:16}" "${2:16}" "$escaped" "$(printf '%b' "$escaped" | base64 -w 0 | tr -d =)")
    # The two words that they are for the check.
    for form in $(printf '%b' "$escaped" | od -An -v -tu8 --endian=little); do
        forms+=("$form" "$(printf '%x' "$form")")
    done
    for form in "${forms[@]}"; do
        ! grep -rqiF -- "$form" "$ASK_LAB_DIR/$name/logs" || fail "$1 is in a log, as $form"
    done
}

# The stranger as an honest sender, so that it is known to be able to; then it goes on when the task is over.
joins_twice() {
    local first before
    log_all sw h2 h3
    # The stranger is heard of at its Join, and then by nobody until its FIN.
    local DEADLINE=60
    receive twice-recv twice --senders 2 --geometry default --aggregators 1024
    wait_for 10 opened h3 twice
    look_up twice
    refused FAILED_PRECONDITION 'not registered' "$receiver_agent" Agent/Join \
        "$(join_as 77 1 | jq -c 'del(.registered)')"
    call "$switch" Switch/RegisterChannel "$(channel 1)" >/dev/null
    first=$(call "$receiver_agent" Agent/Join "$(join_as 77 1)")
    secret=$(secret_of "$first")
    [[ $(call "$receiver_agent" Agent/Join "$(join_as 77 1)") == "$first" ]] || fail "a repeated Join got another answer"
    refused ALREADY_EXISTS 'in use by sender stranger' "$receiver_agent" Agent/Join "$(join_as 78 1)"
    dir=$scratch/twice
    make_input "$dir" --seed 51 --senders 1 --tuples 12000 --keys 200
    hold twice h2 twice --merge-window 0
    feed 1 8000
    wait_for 20 sent_at_least 1000 h2
    refused RESOURCE_EXHAUSTED 'all 2 senders are there already' "$receiver_agent" Agent/Join \
        "$(join_as 79 1 | jq -c '.channel.port += 1')"

    packet data 1
    packet data 1
    # None of these is believed; some are as good as can be but for one field.
    dropped bad_check packet data 2 '.secret = "00112233445566778899aabbccddeeff"'
    dropped bad_incarnation packet data 2 '.incarnation = 2'
    dropped bad_task packet data 2 '.instance = "12345"'
    dropped bad_seq packet data 0
    dropped bad_mark packet data 2 '.mark = [1, 1]'
    # Under the name of h2's channel, from h1.
    dropped bad_port packet data 2 '.channel = "198.18.2.2:49152"'
    packet fin 2
    feed 8001 12000
    exec 9>&-
    ends_in 20 "$sender" "$receiver"
    exit_of "$receiver"
    ((code == 0)) || fail "the receiver ended with $code: $(cat "$scratch/twice-recv.err")"
    # Its own flow's, at the switch and at the receiver; of another's it has none to look for.
    never_logged "a flow's secret" "$secret"
    printf 'evil\t5\n' | sort - "$dir/expected.tsv" >"$scratch/with-stranger"
    sort "$scratch/twice-recv.out" | cmp -s - "$scratch/with-stranger" ||
        fail "wrong answer: $(sort "$scratch/twice-recv.out" | diff - "$scratch/with-stranger" | head -n 5)"
    pass "a sender that joins twice, and packets that are not what they say"
}

# registers INCARNATION: anew, or once more: without a flow the switch would give the channel up after a lease.
registers() {
    call "$switch" Switch/RegisterChannel "$(channel "$1")" >/dev/null
}

# The task of before; meanwhile another of the same id is under way.
sends_for_a_task_that_is_over() {
    local old=$offer
    SEED=52 stream_task over twice 10000
    look_up twice
    [[ $(jq .instance <<<"$offer") != "$(jq .instance <<<"$old")" ]] || fail "an instance was used twice"
    offer=$old
    registers 1
    dropped bad_task packet data 3
    registers 1
    dropped bad_task packet fin 2
    [[ $(call "$receiver_agent" Agent/Renew "$(jq -c '{instance, sender: "77"}' <<<"$old")" | jq -r .state) != STATE_RUNNING ]] ||
        fail "a task that is over is said to be running"
    refused 'ABORTED|NOT_FOUND' . "$receiver_agent" Agent/Join "$(join_as 77 1)"
    registers 1
    # The channel is free for another life, in which the old one's packets are nobody's.
    refused FAILED_PRECONDITION 'registered with incarnation 00000001, not with no incarnation' \
        "$switch" Switch/RegisterChannel "$(channel 2)"
    call "$switch" Switch/RegisterChannel "$(channel 2 | jq -c '.replaces = 1')" >/dev/null
    dropped bad_incarnation packet data 3
    feed 10001 30000
    exec 9>&-
    exact over
    call "$switch" Switch/UnregisterChannel "$(channel 2)" >/dev/null
    # It remembers how the task has ended until the stranger has asked, or for half a minute.
    nothing_left "a stranger sends for a task that is over"
}

# only_text FILE: nothing in it that a terminal obeys.
only_text() {
    [[ -s $1 ]] || fail "$1 is empty"
    ! LC_ALL=C grep -q $'[^\t -~]' "$1" || fail "in $1: $(LC_ALL=C grep $'[^\t -~]' "$1" | head -n 3 | cat -v)"
}

# What it calls itself, and why it leaves, is shown to people at the receiver, on their terminals and in its log.
says_odd_things() {
    local -r odd=$'h2 (198.18.2.2)\e[2J\e]0;owned\a\r\n2026-01-01T00:00:00.000 ask-agentd info: all is well\u009b31m\u202e'
    receive odd-recv odd --senders 1 --geometry default --aggregators 1024
    wait_for 10 opened h3 odd
    look_up odd
    call "$switch" Switch/RegisterChannel "$(channel 4)" >/dev/null
    call "$receiver_agent" Agent/Join "$(join_as 82 4 | jq -c --arg odd "$odd" '.sender_name = $odd')" >/dev/null
    on h3 askctl tasks >"$scratch/odd.tasks"
    on h3 askctl task explain odd >"$scratch/odd.explain"
    on h3 askctl tasks --json >"$scratch/odd.json"
    call "$receiver_agent" Agent/Leave "$(jq -c --arg odd "$odd" '{instance, sender: "82", reason: $odd}' <<<"$offer")" >/dev/null
    ends_in 15 "$receiver"
    expect "$scratch/odd-recv" 11 'sender h2..198.18.2.2.*.h1 .198.18.1.2.. gave up: ' "$receiver"
    for shown in "$scratch"/odd{-recv.err,.tasks,.explain,.json} "$ASK_LAB_DIR/$name/logs/h3.log"; do only_text "$shown"; done
    ! grep -q '^2026-01-01T00:00:00' "$ASK_LAB_DIR/$name/logs/h3.log" || fail "a line of its own in the receiver's log"
    call "$switch" Switch/UnregisterChannel "$(channel 4)" >/dev/null
    nothing_left "a stranger that says odd things"
}

# It joins and is never heard of again; as long as it is, it may yet finish.
never_finishes() {
    local before
    DEADLINE=6 receive never-recv never --senders 1 --geometry default --aggregators 1024
    wait_for 10 opened h3 never
    look_up never
    call "$switch" Switch/RegisterChannel "$(channel 3)" >/dev/null
    call "$receiver_agent" Agent/Join "$(join_as 80 3)" >/dev/null
    # Held back for two seconds each, the longest there is: longer than the deadline, all four together.
    for _ in 1 2 3 4; do
        [[ $(call "$receiver_agent" Agent/Renew "$(jq -c '{instance, sender: "80", wait_ms: 2000}' <<<"$offer")" |
            jq -r .state) == STATE_RUNNING ]] || fail "a sender that is heard of was given up"
    done
    ends_in 20 "$receiver"
    expect "$scratch/never-recv" 10 'sender stranger .h1 .198.18.1.2.. has not been heard of for 6 s' "$receiver"
    call "$receiver_agent" Agent/Renew "$(jq -c '{instance, sender: "80"}' <<<"$offer")" | jq -e '.state == "STATE_FAILED"' \
        >/dev/null || fail "a sender that was given up is not told"
    call "$switch" Switch/UnregisterChannel "$(channel 3)" >/dev/null
    nothing_left "a sender that never finishes is named"
}

# On two hosts; on one host it is their agent that refuses (tests/e2e/errors_test.sh).
two_receivers() {
    SEED=53 stream_task two two 10000
    spawn "$scratch/second" h1 ask-recv --task two --senders 1 --geometry default --aggregators 64 </dev/null
    expect "$scratch/second" 5 'task id two is in use on this switch by receiver 198.18.3.2:4791' "$spawned"
    feed 10001 30000
    exec 9>&-
    exact two
    nothing_left "two receivers with one task id: the second is told of the first"
}

# The agent's new life has a new incarnation of the same channel; nothing of the old one is taken for its.
agent_restarted() {
    # The new life is to be there within one, and a send of it.
    DEADLINE=10 SEED=54 stream_task life life 10000
    local old
    old=$(operator_call "$switch" Switch/GetStatus '{}' | jq -c '.channels[] | select(.channel.host == 3323068930)')
    lab_do kill h2 -KILL
    lab_do restart h2
    # The same send again, from the start: what the task has of the first one would be doubled.
    spawn "$scratch/again" h2 ask-send --task life --to h3 --deadline 10 "$dir/in1.tsv" </dev/null
    expect "$scratch/again" 9 'all 1 senders are there already' "$spawned"
    ends_in 25 "$receiver"
    expect "$scratch/life-recv" 10 'sender h2 .*has not been heard of for 10 s' "$receiver"
    exec 9>&-

    SEED=55 DEADLINE=20 stream_task life2 life 10000
    [[ $(operator_call "$switch" Switch/GetStatus '{}' | jq '.channels[] | select(.channel.host == 3323068930) | .incarnation') != \
        "$(jq .incarnation <<<"$old")" ]] || fail "h2's agent took its former incarnation"
    feed 10001 30000
    exec 9>&-
    exact life2
    receive former former --senders 1 --geometry default --aggregators 1024
    wait_for 10 opened h3 former
    look_up former
    caller=h2 refused FAILED_PRECONDITION 'is registered with incarnation' "$receiver_agent" Agent/Join \
        "$(jq -c --argjson offer "$offer" '{channel, incarnation, instance: $offer.instance, sender: "81", first_seq: "1",
            sender_name: "former", registered: $offer.mark}' <<<"$old")"
    kill -INT "$receiver"
    expect "$scratch/former" 130 interrupted "$receiver"
    nothing_left "an agent that was restarted is not taken for its former self"
}

# What belongs to h2 and h3, by h1, which sees their instance and their channel on the wire: at the end of the task, when
# nothing but LONG and FIN would be left, the same calls would cost all that the switch has added up.
attacks() {
    local task channel instance incarnation before
    SEED=56 stream_task attacked attacked 10000
    task=$(operator_call "$switch" Switch/GetStatus '{}' | jq -c '.tasks[] | select(.id == "attacked")')
    channel=$(operator_call "$switch" Switch/GetStatus '{}' | jq -c '.channels[] | select(.channel.host == 3323068930)')
    instance=$(jq -c '{instance}' <<<"$task")
    incarnation=$(jq .incarnation <<<"$channel")
    before=$(jq .flows <<<"$task")

    call "$switch" Switch/CloseTask "$instance" >/dev/null
    refused ALREADY_EXISTS 'cannot be had' "$switch" Switch/OpenTask \
        "$(jq -c '{id: "mine", instance, geometry, op, copies: 1, aggregators: 64, receiver_address: 3323068674}' <<<"$task")"
    refused PERMISSION_DENIED 'h1 .198.18.1.2. may not act for that host' "$switch" Switch/OpenTask \
        "$(jq -c '{id, instance, geometry, op, copies: 1, aggregators: 64, receiver: "198.18.3.2:4791", receiver_address: 3323069186}' <<<"$task")"
    refused PERMISSION_DENIED 'for its own host to register' "$switch" Switch/UnregisterChannel \
        "$(jq -c '{channel, incarnation}' <<<"$channel")"
    refused PERMISSION_DENIED 'for its own host to register' "$switch" Switch/RegisterChannel \
        "$(jq -c --argjson is "$incarnation" '{channel, incarnation: 5, replaces: $is}' <<<"$channel")"
    # Its own channel, under a secret of its own.
    call "$switch" Switch/RegisterChannel "$(channel 1)" >/dev/null
    refused NOT_FOUND 'no task with instance' "$switch" Switch/JoinFlow \
        "$(channel 1 | jq -c --argjson task "$instance" '. + $task + {secret: "AAAAAAAAAAAAAAAAAAAAAA=="}')"
    refused NOT_FOUND 'no task with instance' "$switch" Switch/ConfirmCopy "$(jq -c '. + {epoch: "0"}' <<<"$instance")"
    [[ $(call "$switch" Switch/RenewTasks "$(jq -c '{instances: [.instance]}' <<<"$instance")" | jq -c '[.unknown, .parts]') == \
        "[[$(jq .instance <<<"$instance")],[]]" ]] || fail "who renews another's task is told of it"
    look_up attacked
    refused PERMISSION_DENIED 'not for h1 .198.18.1.2. to join with' "$receiver_agent" Agent/Join \
        "$(jq -c --argjson offer "$offer" '{channel, incarnation, instance: $offer.instance, sender: "81", first_seq: "1",
            sender_name: "h2", registered: $offer.mark}' <<<"$channel")"

    task=$(operator_call "$switch" Switch/GetStatus '{}' | jq -c '.tasks[] | select(.id == "attacked")')
    [[ $(jq .flows <<<"$task") == "$before" ]] || fail "a flow more, or less: $task"
    feed 10001 30000
    exec 9>&-
    exact attacked
    call "$switch" Switch/UnregisterChannel "$(channel 1)" >/dev/null
    nothing_left "a host that makes the calls of others changes nothing"
}

# secret_of JSON: as a packet's order has it.
secret_of() {
    jq -r .secret <<<"$1" | base64 -d | od -An -v -tx1 | tr -d ' \n'
}

# counts_of ID N: the switch has aggregated N tuples of the task.
counts_of() {
    operator_call "$switch" Switch/GetStatus '{}' |
        jq -e --arg id "$1" --arg n "$2" 'any(.tasks[]; .id == $id and .stats.tuples_switch == $n)' >/dev/null
}

# By the receiver's own host, as somebody who broke into it: ownership has nothing against it, but what the switch reports
# before the commit has.
tampers() {
    local task joined
    receive anew-recv anew --senders 1 --geometry default --aggregators 1024
    wait_for 10 opened h3 anew
    look_up anew
    call "$switch" Switch/RegisterChannel "$(channel 6)" >/dev/null
    joined=$(call "$receiver_agent" Agent/Join "$(join_as 91 6)")
    secret=$(secret_of "$joined")
    packet data 1 '.incarnation = 6'
    wait_for 10 counts_of anew 1
    # Nothing but the FIN is left to come, and passes the switch as anybody's packet does.
    task=$(operator_call "$switch" Switch/GetStatus '{}' | jq -c '.tasks[] | select(.id == "anew")')
    # The agent is not to see by its next renewal that the switch has no such task for a moment.
    lab_do kill h3 -STOP
    caller=h3 call "$switch" Switch/CloseTask "$(jq -c '{instance}' <<<"$task")" >/dev/null
    caller=h3 call "$switch" Switch/OpenTask "$(jq -c '{id, instance, geometry, op, copies, aggregators, receiver, policy,
        receiver_address: 3323069186}' <<<"$task")" >/dev/null
    lab_do kill h3 -CONT
    call "$switch" Switch/UnregisterChannel "$(channel 6)" >/dev/null
    packet fin 2 '.incarnation = 6'
    # Or, where a renewal had been sent before it was stopped, that the switch had no such task for a moment.
    expect "$scratch/anew-recv" 13 \
        "switch $switch.*(made anew|no longer has the task|the flow of sender stranger .* is gone).*run the task again" "$receiver"
    nothing_left "a region that is made anew under its task is not taken for the first"

    dir=$scratch/foreign
    make_input "$dir" --seed 58 --senders 1 --tuples 30000 --keys 600
    receive foreign-recv foreign --senders 1 --geometry default --aggregators 1024
    hold foreign h2 foreign --merge-window 0
    feed 1 10000
    wait_for 20 sent_at_least 1000 h2
    task=$(operator_call "$switch" Switch/GetStatus '{}' | jq -c '.tasks[] | select(.id == "foreign")')
    look_up foreign
    call "$switch" Switch/RegisterChannel "$(channel 1)" >/dev/null
    joined=$(jq -c --argjson channel "$(channel 1)" '{instance, secret: "AAECAwQFBgcICQoLDA0ODw=="} + $channel' <<<"$task")
    caller=h3 call "$switch" Switch/JoinFlow "$joined" >/dev/null
    secret=$(secret_of "$joined")
    packet data 1
    feed 10001 30000
    exec 9>&-
    exact foreign
    (($(jq .runs "$scratch/foreign-recv.json") == 2)) || fail "a foreign flow was taken for a sender's"
    call "$switch" Switch/UnregisterChannel "$(channel 1)" >/dev/null
    nothing_left "tuples of a flow that nobody has joined are in no result"
}

# A task that names its senders, or gives them a token.
members_only() {
    head -c 24 /dev/urandom | base64 >"$scratch/token"
    receive members-recv members --senders 1 --from 198.18.2.2 --token-file "$scratch/token"
    printf 'k\t1\n' >"$scratch/one.tsv"
    spawn "$scratch/outsider" h1 ask-send --task members --to h3 --deadline 10 "$scratch/one.tsv" </dev/null
    expect "$scratch/outsider" 7 'task members on h3 is not for h1 .198.18.1.2.: .*--token-file' "$spawned"
    spawn "$scratch/insider" h1 ask-send --task members --to h3 --token-file "$scratch/token" "$scratch/one.tsv" </dev/null
    expect "$scratch/insider" 0 'task members: ' "$spawned"
    exit_of "$receiver"
    ((code == 0)) || fail "the receiver ended with $code: $(cat "$scratch/members-recv.err")"
    receive named-recv members --senders 1 --from h2,198.18.2.2
    spawn "$scratch/outsider" h1 env ASK_TOKEN="$(cat "$scratch/token")" \
        ask-send --task members --to h3 --deadline 10 "$scratch/one.tsv" </dev/null
    expect "$scratch/outsider" 7 'task members on h3 is not for h1 .198.18.1.2.' "$spawned"
    spawn "$scratch/insider" h2 ask-send --task members --to h3 "$scratch/one.tsv" </dev/null
    expect "$scratch/insider" 0 'task members: ' "$spawned"
    exit_of "$receiver"
    ((code == 0)) || fail "the receiver ended with $code: $(cat "$scratch/named-recv.err")"
    nothing_left "a task takes whom it has named, or who shows its token"
}

# h1 with a certificate of another tenant: no such task, whoever it asks, and one of that id is its own.
looks_as_another_tenant() {
    local -r tls=$ASK_LAB_DIR/$name/tls
    local open
    "$build/bin/askctl" ca issue "$tls" --tenant ads other=198.18.1.2 >/dev/null
    open=$(operator_call "$switch" Switch/GetStatus '{}' | jq -c '.tasks[] | select(.id == "look") | {id, instance, geometry, op}')
    local shows=other
    refused NOT_FOUND 'no task look on h3' "$receiver_agent" Agent/Lookup '{"task_id": "look"}'
    call "$switch" Switch/CloseTask "$(jq -c '{instance}' <<<"$open")" >/dev/null
    refused NOT_FOUND 'no task with instance' "$switch" Switch/ConfirmCopy "$(jq -c '{instance, epoch: "0"}' <<<"$open")"
    call "$switch" Switch/OpenTask "$(jq -c '. + {instance: "77", copies: 1, aggregators: 64, receiver: "198.18.1.2:4791",
        receiver_address: 3323068674}' <<<"$open")" >/dev/null
    call "$switch" Switch/GetStatus '{}' | jq -e '[.tasks[] | .id + " " + .instance] == ["look 77"]' >/dev/null ||
        fail "the switch shows another tenant what is not its own"
    call "$switch" Switch/CloseTask '{"instance": "77"}' >/dev/null
}

# A host with a certificate learns nothing of others' tasks; one without does not get as far as a call.
looks_around() {
    SEED=56 stream_task look look 10000
    call "$switch" Switch/GetStatus '{}' | jq -e '.tasks == [] and all(.channels[]; .channel.host == 3323068674)' >/dev/null ||
        fail "the switch shows a stranger what is not its own"
    operator_call "$switch" Switch/GetStatus '{}' | jq -e 'any(.tasks[]; .id == "look")' >/dev/null ||
        fail "the switch does not show an operator its tasks"
    refused PERMISSION_DENIED 'h1 \(198.18.1.2\) is no operator' "$receiver_agent" Agent/GetStatus '{}'
    refused PERMISSION_DENIED "on its own host" "$receiver_agent" Agent/CancelTask '{"task_id": "look"}'
    for target in "$switch" "$receiver_agent"; do
        if on h1 env -u ASK_TLS "$build/tests/ask-e2e-call" "$target" ask.v1.Switch/GetInfo >"$scratch/plain" 2>&1; then
            fail "$target speaks plain text"
        fi
    done
    looks_as_another_tenant
    feed 10001 30000
    exec 9>&-
    exact look
    nothing_left "a stranger that looks around"
}

nobody_of_the_crowd_is_in() {
    local there
    # Not through a pipe, which grep leaves before all is written.
    there=$(on h1 ss -Htnp state established)
    [[ $there != *ask-e2e-crowd* ]]
}

# Whatever becomes of a daemon, no file is left with what it had in memory.
leaves_no_core() {
    local pid
    for pid in $(lab_do status --json | jq '.nodes[].pid'); do
        [[ $(prlimit --core --noheadings --output=SOFT,HARD --pid "$pid" | tr -s ' ') =~ ^' '?'0 0'$ ]] ||
            fail "the memory of $pid would be written down: $(prlimit --core --pid "$pid")"
    done
    pass "no daemon leaves a core"
}

# More connections than the daemons may have descriptors, and not a word on them: others are served as before.
crowds() {
    local target node before
    local -a crowd=()
    for node in sw h3; do
        prlimit --nofile=1024:1024 --pid "$(lab_do status --json | jq ".nodes[] | select(.node == \"$node\") | .pid")"
    done
    before=$(counted h3 refused_connections)
    for target in "$switch" "$receiver_agent"; do
        mkfifo "$scratch/crowd.$target"
        on h1 "$build/tests/ask-e2e-crowd" "$target" 1100 <"$scratch/crowd.$target" >"$scratch/crowd.$target.out" &
        crowd+=($!)
    done
    exec 7>"$scratch/crowd.$switch" 8>"$scratch/crowd.$receiver_agent"
    for target in "$switch" "$receiver_agent"; do wait_for 20 test -s "$scratch/crowd.$target.out"; done
    # All but some shares: who is shown out makes room for another of the crowd.
    wait_for 20 more_than h3 refused_connections $((before + 600))
    # It needs new connections to both.
    lab_do restart h2
    SEED=57 stream_task crowd crowd 10000
    feed 10001 30000
    exec 9>&-
    exact crowd
    # Those that were let in and do not shake hands are shown out again.
    wait_for 30 nobody_of_the_crowd_is_in
    exec 7>&- 8>&-
    wait "${crowd[@]}"
    on h1 askctl status --switch "$switch" >/dev/null || fail "the switch lets nobody in after a crowd"
    nothing_left "a crowd of silent connections"
}

deaths_lab --hosts 3
leaves_no_core
looks_around
attacks
tampers
members_only
crowds
joins_twice
sends_for_a_task_that_is_over
says_odd_things
never_finishes
two_receivers
agent_restarted
still_works
nothing_left "after all that, the lab counts exactly"
