#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Whatever goes wrong ends within its deadline, says what and who, commits nothing, and leaves nothing behind.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

unknown_task() {
    spawn "$scratch/unknown" h1 ask-send --task nosuch --to h3 --deadline 1 /dev/null </dev/null
    exit_of "$spawned"
    ((code == 4 || code == 10)) || fail "unknown task: exit code $code: $(cat "$scratch/unknown.err")"
    grep -q nosuch "$scratch/unknown.err" || fail "the unknown task is not named: $(cat "$scratch/unknown.err")"
    spawn "$scratch/host" h1 ask-send --task t --to no-such-host.invalid --deadline 1 /dev/null </dev/null
    exit_of "$spawned"
    ((code != 0)) || fail "a host that does not exist was found"
    grep -q no-such-host.invalid "$scratch/host.err" || fail "the host is not named: $(cat "$scratch/host.err")"
    pass "unknown task, unknown host"
}

id_in_use() {
    receive first same --senders 1
    wait_for 10 opened h3 same
    local -r first=$receiver
    receive second same --senders 1
    expect "$scratch/second" 5 same "$receiver"
    kill -INT "$first"
    expect "$scratch/first" 130 interrupted "$first"
    pass "id in use"
}

bad_lines() {
    printf 'good\t1\nbad\n' >"$scratch/lines.tsv"
    receive badline-recv badline --senders 1
    spawn "$scratch/badline" h1 ask-send --task badline --to h3 "$scratch/lines.tsv" </dev/null
    expect "$scratch/badline" 3 'lines.tsv:2:4: no TAB' "$spawned"
    expect "$scratch/badline-recv" 11 'h1' "$receiver"
    [[ ! -e $scratch/badline-recv.json ]] || fail "a failed receive wrote statistics"
    pass "a malformed line takes the task back"
}

# bad_input NAME TEXT FLAG... : a send of $scratch/NAME to a task of its own ends with 3 and says TEXT.
bad_input() {
    local -r file=$1 text=$2
    shift 2
    receive "bad-$file-recv" "bad-${file%.*}" --senders 1
    # A signal before its command runs would be lost.
    wait_for 20 opened h3 "bad-${file%.*}"
    spawn "$scratch/bad-$file" h1 ask-send --task "bad-${file%.*}" --to h3 "$@" "$scratch/$file" </dev/null
    expect "$scratch/bad-$file" 3 "$text" "$spawned"
    kill -INT "$receiver" 2>/dev/null || true
    exit_of "$receiver"
    ((code == 11 || code == 130)) || fail "$file: the receiver ended with $code: $(cat "$scratch/bad-$file-recv.err")"
}

bad_inputs() {
    printf 'the\nthe\r\n' >"$scratch/crlf.txt"
    bad_input crlf.txt 'crlf.txt:2:4: .*--crlf' --count
    # Its first half is sent before the rest is missed.
    seq 100000 | gzip >"$scratch/whole.gz"
    head -c 100000 "$scratch/whole.gz" >"$scratch/cut.gz"
    bad_input cut.gz 'cut.gz: is cut short: its gzip data ends at byte 100000' --count
    printf '\xfd7zXZ\0rest' >"$scratch/words.xz"
    bad_input words.xz 'words.xz: is xz data.*xz -dc' --count
    printf 'a\0b\n' >"$scratch/zero.bin"
    bad_input zero.bin 'zero.bin: is no text: its byte 2 is zero' --count
    spawn "$scratch/nokey" h1 ask-send --task t --to h3 --key 1 /dev/null </dev/null
    expect "$scratch/nokey" 2 '--key needs --value' "$spawned"
    pass "inputs that are not what they seem"
}

overflow() {
    printf 'fits\t1\nfar\\x01\t9223372036854775807\nfar\\x01\t1\n' >"$scratch/overflow.tsv"
    receive overflow-recv overflow --senders 1
    spawn "$scratch/overflow" h1 ask-send --task overflow --to h3 "$scratch/overflow.tsv" </dev/null
    expect "$scratch/overflow-recv" 12 'far' "$receiver"
    exit_of "$spawned"
    ((code != 0)) || fail "a send succeeded although its task has no result"
    pass "a sum past int64 names its key"
}

sender_killed() {
    receive killed-recv killed --senders 2
    hold killed h2 killed
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 killed
    kill -KILL "$sender"
    exec 9>&-
    expect "$scratch/killed-recv" 11 'h2' "$receiver"
    pass "a killed sender is named"
}

agent_killed() {
    # Longer than a second, in which agents hear of each other, and whatever else stands still.
    spawn "$scratch/agent-recv" h3 ask-recv --task agent --senders 1 --deadline 5 </dev/null
    receiver=$spawned
    hold agent h2 agent
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 agent
    lab_do kill h2 -KILL
    expect "$scratch/agent" 6 'went away' "$sender"
    exec 9>&-
    exit_of "$receiver"
    ((code == 10 || code == 11)) || fail "the receiver ended with $code: $(cat "$scratch/agent-recv.err")"
    grep -q h2 "$scratch/agent-recv.err" || fail "the silent sender is not named: $(cat "$scratch/agent-recv.err")"
    lab_do restart h2
    pass "an agent that dies is named on both sides"
}

receiver_interrupted() {
    receive cancel-recv cancel --senders 1
    hold cancel h1 cancel
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 cancel
    kill -INT "$receiver"
    expect "$scratch/cancel-recv" 130 interrupted "$receiver"
    expect "$scratch/cancel" 11 'cancel' "$sender"
    exec 9>&-
    pass "Ctrl-C at the receiver ends the senders"
}

# Called off while the switch makes its memory, which takes a program of its own, and started again at once: its id is in use there,
# by nobody who is left.
started_again() {
    local -r flags=(--senders 1 --geometry default --aggregators 16384)
    receive early-recv early "${flags[@]}"
    wait_for 20 opened h3 early
    kill -INT "$receiver"
    expect "$scratch/early-recv" 130 interrupted "$receiver"
    receive late-recv early "${flags[@]}"
    printf 'a\t1\n' >"$scratch/early.tsv"
    spawn "$scratch/early" h1 ask-send --task early --to h3 "$scratch/early.tsv" </dev/null
    exit_of "$receiver"
    [[ $code == 0 && $(<"$scratch/late-recv.out") == $'a\t1' ]] || fail "started again: $code: $(cat "$scratch/late-recv.err")"
    exit_of "$spawned"
    pass "Ctrl-C while the switch is asked, and the same again"
}

sender_interrupted() {
    receive sender-recv sender --senders 1
    hold sender h1 sender
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 sender
    kill -INT "$sender"
    expect "$scratch/sender" 130 interrupted "$sender"
    exec 9>&-
    expect "$scratch/sender-recv" 11 'h1' "$receiver"
    pass "Ctrl-C at a sender ends the receiver"
}

missing_senders() {
    printf 'a\t1\n' >"$scratch/one.tsv"
    # The one that comes is to be there by then.
    spawn "$scratch/missing-recv" h3 ask-recv --task missing --senders 2 --deadline 4 </dev/null
    receiver=$spawned
    spawn "$scratch/missing" h1 ask-send --task missing --to h3 "$scratch/one.tsv" </dev/null
    sender=$spawned
    expect "$scratch/missing-recv" 10 '1 of 2' "$receiver"
    exit_of "$sender"
    ((code != 0)) || fail "a send succeeded although its task is not whole"
    pass "senders that never come are counted"
}

too_many_senders() {
    receive many-recv many --senders 1
    hold many h1 many
    printf 'a\t1\n' >&9
    wait_for 20 joined h3 many
    spawn "$scratch/many2" h2 ask-send --task many --to h3 --deadline 5 "$scratch/one.tsv" </dev/null
    expect "$scratch/many2" 9 many "$spawned"
    exec 9>&-
    exit_of "$sender"
    ((code == 0)) || fail "the task's own sender failed: $(cat "$scratch/many.err")"
    exit_of "$receiver"
    [[ $code == 0 && $(cat "$scratch/many-recv.out") == $'a\t1' ]] || fail "the task suffered: $(cat "$scratch/many-recv.err")"
    pass "one sender too many changes nothing"
}

# Agents hear of each other four times a second at the most: what is shorter is refused, not made longer in silence.
deadline_too_short() {
    spawn "$scratch/short" h3 ask-recv --task short --senders 1 --deadline 0.1 </dev/null
    expect "$scratch/short" 2 'deadline.*0.1' "$spawned"
    pass "a deadline that cannot be kept is refused by name"
}

no_agent() {
    spawn "$scratch/noagent" h1 ask-send --task t --to h3 --agent "$scratch/none.sock" /dev/null </dev/null
    expect "$scratch/noagent" 6 'start ask-agentd' "$spawned"
    pass "no agent"
}

# agent_says HOST TEXT: in its log.
agent_says() {
    grep -qF -- "$2" "$ASK_LAB_DIR/$name/logs/$1.log"
}

# switch_knows ID RECEIVER
switch_knows() {
    on sw askctl tasks --json |
        jq -e --arg id "$1" --arg receiver "$2" 'any(.[]; .id == $id and .receiver == $receiver)' >/dev/null
}

other_port() {
    local -r config=$ASK_LAB_DIR/$name/conf/h2.toml
    sed -i 's/^listen = .*/listen = "0.0.0.0:5791"/' "$config"
    lab_do restart h2
    agent_says h2 'control port 5791: who sends here says --to h2:5791' || fail "the ready line does not name the port"
    [[ $(on h2 askctl status --json | jq .control_port) == 5791 ]] || fail "status does not name the port"
    spawn "$scratch/port-recv" h2 ask-recv --task port --senders 3 --deadline 20 --geometry default --aggregators 1024 </dev/null
    receiver=$spawned
    # The switch is told where the receiver is.
    wait_for 10 switch_knows port 198.18.2.2:5791
    # Nobody listens where a sender looks by default, and it says so.
    spawn "$scratch/port-default" h1 ask-send --task port --to h2 --deadline 1 "$scratch/one.tsv" </dev/null
    expect "$scratch/port-default" 6 'nobody listens at 198.18.2.2:4791 \(connection refused\).*--to HOST:PORT' "$spawned"
    on h1 ask-send --task port --to h2:5791 "$scratch/one.tsv" </dev/null &
    local -a senders=("$!")
    on h2 ask-send --task port --to 198.18.2.2:5791 "$scratch/one.tsv" </dev/null &
    senders+=("$!")
    # What is in [hosts] is read again without a restart.
    sed -i 's/^h2 = .*/h2 = "198.18.2.2:5791"/' "$ASK_LAB_DIR/$name/conf/h3.toml"
    lab_do kill h3 -HUP
    wait_for 10 agent_says h3 'changed: hosts'
    on h3 ask-send --task port --to h2 "$scratch/one.tsv" </dev/null || fail "--to h2 does not take the port of [hosts]"
    wait "${senders[@]}" || fail "--to HOST:PORT does not reach the receiver"
    exit_of "$receiver"
    [[ $code == 0 && $(cat "$scratch/port-recv.out") == $'a\t3' ]] || fail "receiver on another port: $(cat "$scratch/port-recv.err")"
    spawn "$scratch/port-bad" h1 ask-send --task port --to h2:70000 --deadline 1 "$scratch/one.tsv" </dev/null
    expect "$scratch/port-bad" 2 'h2:70000.*port from 1 to 65535' "$spawned"
    sed -i 's/^listen = .*/listen = "198.18.9.9:4791"/' "$config"
    ! lab_do restart h2 2>/dev/null || fail "an agent runs that nobody can reach"
    agent_says h2 'listen: nobody would reach this agent at 198.18.9.9:4791: other agents dial 198.18.2.2' ||
        fail "a listen address that cannot work is not named"
    sed -i 's/^listen = .*/listen = "0.0.0.0:4791"/' "$config"
    lab_do restart h2
    pass "an agent that listens elsewhere"
}

agent_reloads() {
    local -r config=$ASK_LAB_DIR/$name/conf/h1.toml
    sed -i '1i log_level = "debug"\nworkers = 2' "$config"
    lab_do kill h1 -HUP
    wait_for 10 agent_says h1 'changed: log_level'
    wait_for 10 agent_says h1 'only a restart changes workers' # a line of its own
    sed -i '1i hots = 1' "$config"
    lab_do kill h1 -HUP
    wait_for 10 agent_says h1 'h1.toml:1: unknown key "hots": did you mean hosts?'
    agent_says h1 'everything stays as it is' || fail "a bad file is not said to be left alone"
    sed -i '/^hots\|^workers\|^log_level/d' "$config"
    on h1 askctl status >/dev/null || fail "SIGHUP ended the agent"
    pass "SIGHUP"
}

# sends ID: a sender of h1 looks for the task.
sends() {
    on h1 askctl tasks --json | jq -e --arg id "$1" 'any(.[]; .id == $id and .role == "sender")' >/dev/null
}

socket_group() {
    local -r config=$ASK_LAB_DIR/$name/conf/h1.toml dir=$ASK_LAB_DIR/$name/h1
    local -ra member=(setpriv --reuid 65534 --regid 65534 --groups 4242) stranger=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    chmod 755 "$scratch" "$ASK_LAB_DIR" "$ASK_LAB_DIR/$name" "$dir"
    # Wherever the build is: everybody may run these.
    install -m 755 "$build"/bin/{askctl,ask-send} "$scratch/"
    sed -i '1i socket_group = "no-such-group"' "$config"
    ! lab_do restart h1 2>/dev/null || fail "an agent runs with a group that does not exist"
    agent_says h1 'socket_group: there is no group "no-such-group": make it (groupadd no-such-group)' || fail "the group is not named"
    sed -i 's/^socket_group = .*/socket_group = "4242"/' "$config"
    (umask 0 && lab_do restart h1)
    [[ $(stat -c '%a %g' "$dir/agent.sock" "$dir/agent.sock.ctl") == $'660 4242\n660 4242' ]] ||
        fail "sockets: $(stat -c '%n %a %g' "$dir"/agent.sock*)"
    on h1 "${member[@]}" "$scratch/askctl" status >/dev/null || fail "a member of the group may not use .ctl"
    spawn "$scratch/member" h1 "${member[@]}" "$scratch/ask-send" --task nosuch --to h3 --deadline 1 /dev/null </dev/null
    expect "$scratch/member" '4|10' nosuch "$spawned"
    spawn "$scratch/stranger" h1 "${stranger[@]}" "$scratch/ask-send" --task nosuch --to h3 --deadline 1 /dev/null </dev/null
    expect "$scratch/stranger" 7 'agent.sock: it is for root and members of the group 4242: become one' "$spawned"
    spawn "$scratch/stranger-ctl" h1 "${stranger[@]}" "$scratch/askctl" status </dev/null
    expect "$scratch/stranger-ctl" 7 'agent.sock.ctl: it is for root and members of the group 4242' "$spawned"
    sed -i '1i quota_sessions = 1' "$config"
    lab_do restart h1
    spawn "$scratch/first-of-user" h1 "${member[@]}" "$scratch/ask-send" --task crowd --to h3 --deadline 20 /dev/null </dev/null
    local -r first=$spawned
    wait_for 10 sends crowd
    spawn "$scratch/second-of-user" h1 "${member[@]}" "$scratch/ask-send" --task crowd --to h3 --deadline 1 /dev/null </dev/null
    expect "$scratch/second-of-user" 9 'user 65534 has 1 of the 1 applications .*raise its quota_sessions' "$spawned"
    spawn "$scratch/root" h1 ask-send --task nosuch --to h3 --deadline 1 /dev/null </dev/null
    expect "$scratch/root" '4|10' nosuch "$spawned"
    kill -INT "$first"
    exit_of "$first"
    sed -i '/^socket_group\|^quota_sessions/d' "$config"
    (umask 0 && lab_do restart h1)
    [[ $(stat -c '%a %g' "$dir/agent.sock" "$dir/agent.sock.ctl") == $'660 0\n660 0' ]] ||
        fail "sockets without a group: $(stat -c '%n %a %g' "$dir"/agent.sock*)"
    spawn "$scratch/no-group" h1 "${stranger[@]}" "$scratch/askctl" status </dev/null
    expect "$scratch/no-group" 7 'set socket_group in the agent' "$spawned"
    pass "sockets are a group's"
}

closed_streams() {
    local got=0
    on h3 bash -c 'exec ask-recv --task closed --senders 1 >&-' 2>"$scratch/closed.err" || got=$?
    ((got == 2)) || fail "ask-recv ended with $got: $(cat "$scratch/closed.err")"
    grep -q "standard output is closed" "$scratch/closed.err" || fail "ask-recv said: $(cat "$scratch/closed.err")"
    got=0
    on h3 bash -c 'exec askctl status >&-' 2>"$scratch/closed.err" || got=$?
    ((got == 1)) || fail "askctl ended with $got: $(cat "$scratch/closed.err")"
    grep -q "standard output" "$scratch/closed.err" || fail "askctl said: $(cat "$scratch/closed.err")"
    # With everything closed no socket may become a standard stream.
    spawn "$scratch/closed-recv" h3 ask-recv --task streams --senders 1 --deadline 10 </dev/null
    receiver=$spawned
    on h1 bash -c "exec ask-send --task streams --to h3 '$scratch/one.tsv' <&- >&- 2>&-" || fail "a sender needs no standard streams"
    exit_of "$receiver"
    [[ $(cat "$scratch/closed-recv.out") == $'a\t1' ]] || fail "closed streams: $(cat "$scratch/closed-recv.err")"
    pass "closed standard streams"
}

who_cannot_be_reached() {
    local -r ctl=("$build/bin/askctl" status --switch)
    spawn "$scratch/reach" h1 "${ctl[@]}" no-such-host.invalid:4792
    expect "$scratch/reach" 4 'the name "no-such-host.invalid" does not resolve' "$spawned"
    spawn "$scratch/reach" h1 "${ctl[@]}" 198.18.1.1:1
    expect "$scratch/reach" 6 'nobody listens at 198.18.1.1:1 \(connection refused\)' "$spawned"
    spawn "$scratch/reach" h1 "${ctl[@]}" 198.18.1.77:4792
    expect "$scratch/reach" '6|10' 'no way leads to|has not answered within' "$spawned"
    spawn "$scratch/reach" h1 "${ctl[@]}" nonsense
    expect "$scratch/reach" 2 '--switch: "nonsense": must be HOST:PORT' "$spawned"
    pass "names, ports and hosts that are not there are told apart"
}

read_twice() {
    (($(grep -c 'certificate read again' "$1") == 2))
}

# Certificates that do not fit are named with what to do, on both sides; new ones are taken without a restart.
certificates() {
    local -r tls=$ASK_LAB_DIR/$name/tls log=$ASK_LAB_DIR/$name/logs/h1.log
    local -r ctl=("$build/bin/askctl" status --switch 198.18.1.1:4792)
    "$build/bin/askctl" ca make "$scratch/ca" >/dev/null
    "$build/bin/askctl" ca issue "$scratch/ca" h1=198.18.1.2 >/dev/null
    spawn "$scratch/tls" h1 "${ctl[@]}" --tls "$scratch/ca/h1"
    expect "$scratch/tls" 7 'the certificate of 198.18.1.1:4792 is not signed by our CA' "$spawned"
    spawn "$scratch/tls" h1 "${ctl[@]}" --plain-text
    expect "$scratch/tls" 7 '198.18.1.1:4792 does not speak plain text' "$spawned"
    spawn "$scratch/tls" h1 "${ctl[@]}" --tls "$scratch/nothing"
    expect "$scratch/tls" 4 "$scratch/nothing/ca.pem: No such file or directory: make one with askctl ca" "$spawned"
    cp -r "$tls/h1" "$scratch/good"
    cp "$scratch/ca/h1"/* "$tls/h1/"
    wait_for 10 grep -q 'certificate read again' "$log"
    spawn "$scratch/tls" h1 ask-send --task tls --to h3 "$scratch/one.tsv" </dev/null
    expect "$scratch/tls" 7 'the certificate of 198.18.3.2:4791 is not signed by our CA: all hosts' "$spawned"
    chmod 644 "$scratch/good/key.pem"
    cp --preserve=mode "$scratch/good"/* "$tls/h1/"
    wait_for 10 grep -qF "$tls/h1/key.pem: others may read or change this key (mode 0644): chmod 600" "$log"
    chmod 600 "$tls/h1/key.pem"
    wait_for 10 read_twice "$log"
    spawn "$scratch/tls-recv" h3 ask-recv --task tls --senders 1 --deadline 10 </dev/null
    receiver=$spawned
    on h1 ask-send --task tls --to h3 "$scratch/one.tsv" </dev/null 2>"$scratch/tls.err" ||
        fail "a new certificate is not taken: $(<"$scratch/tls.err")"
    exit_of "$receiver"
    [[ $(cat "$scratch/tls-recv.out") == $'a\t1' ]] || fail "over a new certificate: $(cat "$scratch/tls-recv.err")"
    pass "certificates that do not fit, and new ones"
}

# events_of NODE: eventfds of its daemon, one of each session and some of gRPC's.
events_of() {
    local pid
    read -r pid _ <"$ASK_LAB_DIR/$name/pids/$1"
    find "/proc/$pid/fd" -lname '*eventfd*' | wc -l
}

has_events() {
    (($(events_of "$1") <= $2))
}

# Sessions that end when no other application comes leave nothing until one does.
nobody_comes() {
    local -a pids=()
    local i before
    before=$(events_of h2)
    for i in 1 2 3 4 5 6; do
        spawn "$scratch/nobody$i" h2 ask-recv --task "nobody$i" --senders 1 </dev/null
        pids+=("$spawned")
        wait_for 20 opened h2 "nobody$i"
    done
    kill -INT "${pids[@]}"
    for i in "${pids[@]}"; do exit_of "$i"; done
    wait_for 40 no_tasks h2
    # Those who remember a task that has ended have its session's.
    wait_for 10 has_events h2 $((before + 2))
    pass "sessions that end leave nothing, though nobody comes after them"
}

lab_up --hosts 3
unknown_task
id_in_use
bad_lines
bad_inputs
overflow
sender_killed
receiver_interrupted
started_again
sender_interrupted
missing_senders
too_many_senders
agent_killed
no_agent
deadline_too_short
other_port
agent_reloads
socket_group
closed_streams
who_cannot_be_reached
certificates
nobody_comes
wait_for 40 no_tasks h1 h2 h3 sw
