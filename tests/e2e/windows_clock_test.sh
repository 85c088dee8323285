#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The clock of a stream's receiver is set forward by an hour and back again, in the middle: every tuple is in one window, and
# windows follow upon each other. Senders' clocks stay.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/streams.sh
source "$root/tests/e2e/streams.sh"

readonly BLOCKS=70

# step SECONDS: from now on it is so much later at the receiver's host.
step() {
    printf '%s\n' "$1" >"$scratch/clock.new"
    mv "$scratch/clock.new" "$scratch/clock"
}

# with_clock COMMAND... : what it starts reads that clock. The sanitizers want to be first among what is loaded.
with_clock() {
    ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 ASK_CLOCK_FILE=$scratch/clock LD_PRELOAD=$build/tests/ask-e2e-clock-step.so "$@"
}

# newest: the number of the window that was committed last.
newest() {
    rows steps | tail -n 1 | cut -f1
}

# newer N: a window has been committed that begins so much later than the one that was the newest.
newer() {
    (($(newest) - before >= $1))
}

step 0
lab_up --hosts 4
with_clock lab_do restart h4
with_clock open_stream steps --senders 3
for host in 1 2 3; do
    follow steps "h$host" "send$host" - < <(lines_of "$host" "$BLOCKS")
    senders[host]=$sender
done
wait_for 10 committed steps 2

before=$(newest)
step 3600
wait_for 10 newer 3500
before=$(newest)
wait_for 10 newer 2

before=$(newest)
step 0
wait_for 10 newer 3
(($(newest) - before < 60)) || fail "windows do not go on where they were: $(rows steps)"

for host in 1 2 3; do ends "${senders[host]}" 0 "steps.send$host"; done
kill -INT "$receiver"
ends "$receiver" 130 steps.recv
exact steps "1=1-$((BLOCKS * 10))" "2=1-$((BLOCKS * 10))" "3=1-$((BLOCKS * 10))"
lab_do log h4 >"$scratch/h4.log"
grep -q 'stream steps: .* set forward by 3600 s' "$scratch/h4.log" || fail "it is not said that the clock was set forward: $(cat "$scratch/h4.log")"
grep -q 'stream steps: .* set back by 3600 s' "$scratch/h4.log" || fail "it is not said that the clock was set back: $(cat "$scratch/h4.log")"
pass "the receiver's clock is set forward and back"
