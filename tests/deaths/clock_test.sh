#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The clock is stepped by hours, to and fro, under all daemons and commands: no effect. Every deadline is the monotonic
# clock's.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

export ASK_CLOCK_FILE=$scratch/clock

# step SECONDS: from now on it is so much later.
step() {
    printf '%s\n' "$1" >"$ASK_CLOCK_FILE.new"
    mv "$ASK_CLOCK_FILE.new" "$ASK_CLOCK_FILE"
}

# An hour forward, two back, some hundred times a second, until stop_stepping.
start_stepping() {
    : >"$scratch/stepping"
    while [[ -e $scratch/stepping ]]; do
        step 3600
        step -3600
    done &
    stepping=$!
}

stop_stepping() {
    rm "$scratch/stepping"
    wait "$stepping"
    step 0
}

counts_while_stepped() {
    start_stepping
    stream_task steps steps 10000
    feed 10001 30000
    exec 9>&-
    exact steps
    still_works
    stop_stepping
    nothing_left "a task while the clock is stepped to and fro"
}

# Who has died is named in time, though the clock says that no time has passed, or that it ran backwards.
deaths_in_time() {
    local -r by=$1
    DEADLINE=6 stream_task "hang$by" "hang$by" 5000
    lab_do kill h2 -STOP
    step "$by"
    ends_in 15 "$receiver"
    expect "$scratch/hang$by-recv" 10 'sender h2 .*has not been heard of for 6 s' "$receiver"
    lab_do kill h2 -CONT
    ends_in 15 "$sender"
    exit_of "$sender"
    ((code != 0)) || fail "a sender that was given up succeeded"
    exec 9>&-
    step 0

    # A call that nobody answers: the clock goes back while it is under way, again and again.
    lab_do kill sw -STOP
    spawn "$scratch/hung$by" h3 ask-recv --task "hung$by" --senders 1 --deadline 3 </dev/null
    start_stepping
    ends_in 20 "$spawned"
    stop_stepping
    lab_do kill sw -CONT
    exit_of "$spawned"
    ((code == 6 || code == 10)) || fail "a hung switch gave $code: $(cat "$scratch/hung$by.err")"
    grep -q '198.18.1.1' "$scratch/hung$by.err" || fail "a hung switch is not named: $(cat "$scratch/hung$by.err")"
    nothing_left "deaths while the clock is stepped by $by s" $((lease + 10))
}

# The product reads no time of day, but for the time in front of a line of its log, to tell people until when a result is
# kept, for certificates, for the doctor, who judges the clock by them, for windows of streams, which have their names by them, and for how long a file that another has the
# name of has not been written to, which files say by it.
if grep -rnE 'system_clock|CLOCK_REALTIME|gettimeofday|time_of_day|[^_]time\((nullptr|NULL|0)\)' \
    "$root"/{agent,controller,lib,loader,relay,bpf,tools/cli} | grep -v -e '/doctor/gather.cpp:.*facts.now' -e '/lib/base/runtime.h:' -e '/kept_results.cpp:.*from_now' -e '/security_config.cpp:.*expires' \
        -e '/lib/base/wall_clock.h:' -e '/lib/client/stream_[a-z]*\.[a-z]*:' -e '/tools/cli/every.cpp:' -e '/tools/cli/tail_input.cpp:.*quiet = '; then
    fail "the time of day is read there: use the monotonic clock"
fi
pass "no time of day is read"

step 0
# The sanitizers want to be first among what is loaded.
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_PRELOAD=$build/tests/ask-e2e-clock-step.so
deaths_lab --hosts 3
export -n LD_PRELOAD
counts_while_stepped
deaths_in_time 86400
deaths_in_time -86400
