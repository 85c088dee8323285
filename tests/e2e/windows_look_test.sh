#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What an operator sees of a stream and does with it: how far it is and whom it waits for, in text and for scripts; cancelled, it ends for
# everybody, by name, and goes on exactly when it is started again.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

# endless_lines_of SENDER: a hundred of its own a second, until the test says that it is enough.
endless_lines_of() {
    local number=0
    while [[ ! -e $scratch/enough ]]; do
        printf 's%s-%06d\t1\n' "$1" $((number += 1))
        sleep 0.01 # the pace of a source
    done
}

# receive FLAGS... : sets $receiver.
receive() {
    spawn "$scratch/recv" h3 ask-recv --task web --every 1s --senders 2 --out "$scratch/web" "$@" </dev/null
    receiver=$spawned
}

# send_log FLAGS... : from h1, what is in its log; sets $first.
send_log() {
    spawn "$scratch/first" h1 ask-send --follow --task web --to h3 --state "$scratch/web.state" "$@" "$scratch/log" </dev/null
    first=$spawned
}

sender_shows() {
    on h1 askctl streams | grep -qE '^web +sender +1\.0 s +running '
}

receiver_shows() {
    on h3 askctl streams --json | jq -e 'length == 1 and (.[0] | .name == "web" and .role == "receiver" and .age_seconds < 10 and .whole > 0
        and (.members | length) == 2 and (.members[0].member | startswith("0x")))' >/dev/null
}

looks() {
    wait_for 10 receiver_shows # a window's line is there before its table is, and before the agent hears of it
    wait_for 5 sender_shows # at its next look, a second later
    [[ $(on sw askctl streams 2>&1) == *'a switch knows no streams'* ]] || fail "streams of a switch"
    on h3 askctl top --looks 1 --watch 0.1 | grep -qE '^web +receiver .* ago ' || fail "top: $(on h3 askctl top --looks 1 --watch 0.1)"
    on h3 askctl top --looks 1 --watch 0.1 --json | jq -e '.streams[0].name == "web"' >/dev/null || fail "top --json"
    on h3 askctl tasks | grep -qE '^web +receiver ' || fail "tasks: $(on h3 askctl tasks)"
    on h3 askctl task show web | grep -qE '^h2 \(198.18.2.2\) +0x[0-9a-f]{16} ' || fail "show: $(on h3 askctl task show web)"
    on h1 askctl task show web --json | jq -e '.[0].role == "sender" and .[0].peer != ""' >/dev/null || fail "show --json of a sender"
    on h3 askctl task explain web | grep -q '^Stream web, received here: a window every 1.0 s, running$' || fail "explain: $(on h3 askctl task explain web)"
    on h3 askctl task explain web --json | jq -e '.streams[0].committed > 0' >/dev/null || fail "explain --json"
    pass "a stream, in text and for scripts"
}

# At its receiver: for everybody.
cancelled() {
    on h3 askctl task cancel web | grep -q 'it ends here and at all of its senders' || fail "cancel does not say what it does"
    ends "$receiver" 11 recv 'cancelled by askctl task cancel'
    ends "$first" 11 first '^ask-send: stream web: cancelled by askctl task cancel on h3$'
    ends "$second" 11 second '^ask-send: stream web: cancelled by askctl task cancel on h3$'
    pass "a stream is cancelled"
}

# The one with --state sends again what was not committed; the other one is gone, and named. The deadline is longer than anything
# stands still on a busy machine: else the first would be left out, too.
begun_again() {
    receive --allow-incomplete --deadline 5
    send_log --stats "$scratch/first.json"
    wait_for 20 committed web 1 incomplete
    grep -q $'\tincomplete\t.*h2' "$scratch/web/windows.tsv" || fail "nobody is named: $(cat "$scratch/web/windows.tsv")"
    wait_for 10 committed web 3 whole
    : >"$scratch/enough"
    wait "$writer"
    wait_for 10 log_is_read web "$scratch/log"
    kill -TERM "$first"
    ends "$first" 0 first 'stream web: .* windows'
    jq -e '.windows > 0 and .windows_left_out == 0 and .tuples_in > 0 and .tuples_in == .tuples_merged + .tuples_sent' "$scratch/first.json" >/dev/null ||
        fail "statistics: $(cat "$scratch/first.json")"
    cat "$scratch"/web/2*.tsv | grep '^s1-' | sort | cmp - <(sort "$scratch/log") || fail "not all lines of the log are in one window each"
    pass "it begins again"
}

# On a sender's host: that one alone. With --quiet it says what may be lost all the same.
one_sender() {
    printf 's9-1\t1\ns9-2\t1\n' >"$scratch/cut"
    spawn "$scratch/third" h2 ask-send --quiet --follow --task web --to h3 "$scratch/cut" </dev/null
    local -r third=$spawned
    wait_for 10 grep -qs '^s9-2' -r "$scratch/web"
    : >"$scratch/cut"
    wait_for 5 grep -q 'was cut off: read from its beginning' "$scratch/third.err"
    on h2 askctl task cancel web | grep -q '1 send(s) are ending here without leaving it' || fail "cancel of a sender does not say what it does"
    ends "$third" 11 third 'cancelled by askctl task cancel$'
    on h3 askctl task finish web --json | jq -e '.id == "web" and .finishing' >/dev/null || fail "finish --json"
    ends "$receiver" 20 recv 'h2'
    pass "a sender is cancelled"
}

lab_up --hosts 3
# It is there before its reader is.
: >"$scratch/log"
endless_lines_of 1 >>"$scratch/log" &
writer=$!
receive
send_log
spawn "$scratch/second" h2 ask-send --follow --task web --to h3 - < <(endless_lines_of 2)
second=$spawned
wait_for 10 committed web 1 whole
looks
cancelled
begun_again
one_sender
wait_for 20 no_tasks h1 h2 h3 sw
