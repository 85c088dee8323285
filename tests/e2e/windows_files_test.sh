#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A stream of logs, and what logrotate does to them: cut off after they were copied, and rotated more than once while their sender
# is away.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/streams.sh"

# follow_log NAME HOST: sets $sender.
follow_log() {
    follow "$1" "$2" send --state "$scratch/$1.state" "$scratch/$1.log" </dev/null
}

cut_off() {
    local -r log=$scratch/cut.log
    some_lines 1 1 100 >"$log"
    open_stream cut --senders 1 --deadline 2
    follow_log cut h1
    wait_for 10 log_is_read cut "$log"
    cp "$log" "$log.1" && truncate -s 0 "$log"
    wait_for 10 grep -q 'was cut off: read from its beginning' "$scratch/cut.send.err"
    some_lines 1 101 150 >>"$log"
    wait_for 10 has_line cut s1-000150
    exact cut 1=1-150
    # What is not committed when both its lines and its sender go is lost, and said to be.
    kill -STOP "$receiver"
    some_lines 1 151 200 >>"$log"
    wait_for 10 log_is_read cut "$log"
    truncate -s 0 "$log"
    kill -KILL "$sender"
    exit_of "$sender"
    refused 3 'it was cut off meanwhile' h1 ask-send --follow --task cut --to h4 --state "$scratch/cut.state" "$log"
    kill -CONT "$receiver"
    ends "$receiver" 13 cut.recv
    grep -q 'h1 .* has ended without leaving' "$scratch/cut.recv.err" || fail "it says: $(cat "$scratch/cut.recv.err")"
    exact cut
    pass "a log that is copied and cut off"
}

# rotate LOG SENDER FIRST LAST: under a new name, and a new file with these lines.
rotate() {
    [[ ! -e $1.2 ]] || mv "$1.2" "$1.3"
    [[ ! -e $1.1 ]] || mv "$1.1" "$1.2"
    mv "$1" "$1.1"
    some_lines "$2" "$3" "$4" >"$1"
}

rotated() {
    local -r log=$scratch/twice.log
    some_lines 1 1 100 >"$log"
    open_stream twice --senders 1
    follow_log twice h2
    wait_for 10 has_line twice s1-000100
    kill -KILL "$sender"
    exit_of "$sender"
    some_lines 1 101 120 >>"$log"
    rotate "$log" 1 121 200
    rotate "$log" 1 201 300
    follow_log twice h2
    wait_for 15 log_is_read twice "$log"
    # Once more, and one of the two is compressed before it was read.
    kill -KILL "$sender"
    exit_of "$sender"
    rotate "$log" 2 1 100
    rotate "$log" 3 1 100
    gzip "$log.1"
    follow_log twice h2
    wait_for 15 log_is_read twice "$log"
    kill -TERM "$sender"
    ends "$sender" 0 twice.send
    grep -q 'twice.log.1.gz was rotated before its end was read: its lines are in no window' "$scratch/twice.send.err" ||
        fail "nobody says what is lost: $(cat "$scratch/twice.send.err")"
    on h4 askctl task finish twice >/dev/null
    ends "$receiver" 0 twice.recv
    exact twice 1=1-300 3=1-100
    ! has_line twice s2-.* || fail "lines of a file that was compressed"
    pass "a log that is rotated twice meanwhile"
}

lab_up --hosts 4
beside_each_other cut_off rotated
wait_for 20 no_tasks h1 h2 h3 h4 sw
