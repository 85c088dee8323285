#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A stream: three senders, a window a second. Every tuple is in exactly one window, each sender's in order, and what is
# aggregated adds up, whoever is killed meanwhile.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

readonly every=1s

# shared_lines_of SENDER BLOCKS [BEFORE]: the lines of an application that goes on for a tenth of a second a block, behind so many
# blocks that it has given before. Each has a key of its own, and one that all have.
shared_lines_of() {
    awk -v sender="$1" -v blocks="$2" -v before="${3-0}" 'BEGIN {
        number = 40 * before
        for (block = 0; block < blocks; ++block) {
            for (i = 0; i < 40; ++i) {
                printf "s%d-%06d\t1\nshared%d\t1\n", sender, ++number, number % 7
            }
            fflush()
            system("sleep 0.1") # the pace of a source
        }
    }'
}

# receive DIR FLAGS... : on h4; sets $receiver.
receive() {
    local -r out=$1
    shift
    spawn "$out.recv" h4 ask-recv --task web --every "$every" --out "$out" --senders 3 "$@" </dev/null
    receiver=$spawned
}

# send SENDER BLOCKS WINDOWS: its process goes to senders[]. The last block comes once so many windows are committed: a sender
# that came late would else have all of its lines in fewer.
send() {
    local -r sender=$1 blocks=$2 windows=$3
    spawn "$dir/send$sender" "h$sender" ask-send --follow --task web --to h4 - \
        < <(shared_lines_of "$sender" $((blocks - 1)) && wait_for 30 committed "${dir##*/}/out" "$windows" whole &&
            shared_lines_of "$sender" 1 $((blocks - 1)))
    senders[sender]=$spawned
}

# log SENDER BLOCKS: the same lines into a file, whatever file has its name; its writer is in $writer.
log() {
    shared_lines_of "$1" "$2" | while IFS= read -r line; do printf '%s\n' "$line" >>"$dir/log"; done &
    writer=$!
}

# send_log: from h3, what is in that file; sets senders[3].
send_log() {
    spawn "$dir/send3" h3 ask-send --follow --task web --to h4 --state "$dir/log.state" "$dir/log" </dev/null
    senders[3]=$spawned
}

# all_have_left: the senders succeed, then the receiver is ended.
all_have_left() {
    local sender
    for sender in "${!senders[@]}"; do
        exit_of "${senders[sender]}"
        ((code == 0)) || fail "ask-send $sender ended with $code: $(cat "$dir/send$sender.err") $(cat "$dir/out.recv.err")"
    done
    kill -INT "$receiver"
    exit_of "$receiver"
    ((code == 130)) || fail "ask-recv ended with $code: $(cat "$dir/out.recv.err")"
}

# shares_add_up BLOCKS WINDOWS: what three senders gave is in the tables, each tuple in one, in order; of at least so many windows.
shares_add_up() {
    awk -F'\t' -v each=$((40 * $1)) '
        function bad(text) { print FILENAME ": " text; failed = 1; exit 1 }
        FILENAME != file {
            file = FILENAME
            ++windows
            for (sender in top) { low[sender] = top[sender] }
        }
        /^shared/ { shared += $2; next }
        {
            split($1, part, "-")
            if ($2 != 1 || $1 in seen) { bad($1 " is here twice") }
            if (part[2] + 0 <= low[part[1]]) { bad($1 " comes after " low[part[1]]) }
            seen[$1]
            ++count[part[1]]
            if (part[2] + 0 > top[part[1]]) { top[part[1]] = part[2] + 0 }
        }
        END {
            if (failed) { exit 1 }
            for (i = 1; i <= 3; ++i) {
                if (count["s" i] != each) { print "s" i " has " count["s" i] + 0 " tuples of " each; exit 1 }
            }
            if (shared != 3 * each) { print "shared keys add up to " shared " of " 3 * each; exit 1 }
        }' "$dir"/out/2*.tsv >"$dir/wrong" || fail "not exact: $(cat "$dir/wrong")"
    awk -F'\t' -v least="$2" '
        /^#/ { next }
        $1 <= before || ($4 != "whole" && $4 != "empty") { print; exit 1 }
        { before = $1; windows += $4 == "whole"; tuples += $7 }
        END { if (windows < least || tuples != '$((240 * $1))') { print windows " windows, " tuples " tuples"; exit 1 } }' \
        "$dir/out/windows.tsv" >"$dir/wrong" || fail "windows.tsv says: $(cat "$dir/wrong" "$dir/out/windows.tsv")"
}

undisturbed() {
    dir=$scratch/calm
    mkdir -p "$dir"
    declare -ga senders=()
    receive "$dir/out"
    local sender
    for sender in 1 2 3; do
        send "$sender" 35 3
    done
    all_have_left
    shares_add_up 35 3
    pass "windows of three senders"
}

# Each of them once, and the next one when windows go on. The third sender reads a log, which is rotated.
killed() {
    dir=$scratch/killed
    mkdir -p "$dir"
    declare -ga senders=()
    : >"$dir/log"
    receive "$dir/out"
    send 1 110 8
    send 2 110 8
    log 3 110
    send_log
    wait_for 10 committed killed/out 2
    kill -KILL "$receiver"
    # Until it has ended it holds its directory's lock.
    exit_of "$receiver"
    receive "$dir/out"
    wait_for 10 committed killed/out 4
    lab_do kill h1 -KILL
    lab_do restart h1
    wait_for 15 committed killed/out 6
    lab_do kill h4 -KILL
    lab_do restart h4
    wait_for 15 committed killed/out 8
    lab_do kill sw -KILL
    lab_do restart sw
    mv "$dir/log" "$dir/log.1"
    wait_for 15 committed killed/out 9
    kill -KILL "${senders[3]}"
    exit_of "${senders[3]}"
    send_log
    wait "$writer"
    wait_for 15 log_is_read killed/log "$dir/log"
    kill -TERM "${senders[3]}"
    all_have_left
    shares_add_up 110 8
    pass "receiver, agents and switch killed"
}

# What the receiver's dead agent leaves on the switch goes with its lease.
printf 'lease_seconds = 5\n' >"$scratch/switch.toml"
lab_up --hosts 4 --config-switch "$scratch/switch.toml"
undisturbed
killed
wait_for 20 no_tasks h1 h2 h3 h4 sw
