# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests of deaths share, on top of the end-to-end tests' own: a lab with short leases that is compared after
# each death with what it was before the first.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly here=$root/tests/deaths

# The switch takes back after so many seconds what no receiver renews; agents renew every 2.
readonly lease=5

# deaths_lab OPTION... : a lab, as lab_up; warm, and its snapshot taken.
deaths_lab() {
    printf 'lease_seconds = %s\n' "$lease" >"$scratch/lease.toml"
    lab_up --config-switch "$scratch/lease.toml" "$@"
    warm_up
    snapshot
}

# From every host to h3, once: connections, channels and threads that stay are there afterwards.
warm_up() {
    local -r dir=$scratch/warm
    make_input "$dir" --seed 7 --senders 3 --tuples 500 --keys 50
    run_task "$dir" warm h3
    rm -r "$dir"
}

snapshot() {
    "$here/leak_check" snapshot "$name" "$scratch/snapshot"
}

# nothing_left WHAT [SECONDS]: the test $1 has passed, and the lab is as it was.
nothing_left() {
    "$here/leak_check" compare "$name" "$scratch/snapshot" "${2:-10}" || fail "$1: something is left over"
    pass "$1"
}

# gone PID: the background process has ended.
gone() {
    ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null
}

# ends_in SECONDS PID... : none is waited for any longer. A deadline of a task, and some for a busy machine.
ends_in() {
    local -r limit=$1
    local pid
    shift
    for pid; do wait_for "$limit" gone "$pid"; done
}

# stream_task LOG ID TUPLES: a receiver on h3 and a sender on h2 whose input stays open, the first TUPLES of it sent and
# on their way. The task's input, and what is expected of all of it, are in $dir. RECV_FLAGS: more of them for ask-recv.
stream_task() {
    local -r log=$1 id=$2 tuples=$3
    dir=$scratch/$log
    make_input "$dir" --seed "${SEED:-11}" --senders 1 --tuples 30000 --keys 600
    # shellcheck disable=SC2086 # several words
    receive "$log-recv" "$id" --senders 1 ${RECV_FLAGS-}
    hold "$log" h2 "$id" --merge-window 0
    feed 1 "$tuples"
    wait_for 20 sent_at_least "$tuples" h2
}

# feed FIRST LAST: these lines of the task's input into the sender's pipe.
feed() {
    sed -n "$1,$2p" "$dir/in1.tsv" >&9
}

# exact LOG: sender and receiver of stream_task succeed, and the answer is the reference's.
exact() {
    local -r log=$scratch/$1
    exit_of "$sender"
    ((code == 0)) || fail "$1: ask-send ended with $code: $(cat "$log.err")"
    exit_of "$receiver"
    ((code == 0)) || fail "$1: ask-recv ended with $code: $(cat "$log-recv.err")"
    cmp -s "$log-recv.out" "$dir/expected.tsv" ||
        fail "$1: wrong answer: $(diff "$log-recv.out" "$dir/expected.tsv" | head -n 8)"
    check_stats "$log-recv.json" "$(wc -l <"$dir/in1.tsv")"
}

# still_works: the lab counts exactly.
still_works() {
    local -r dir=$scratch/works
    make_input "$dir" --seed 8 --senders 3 --tuples 1000 --keys 100
    run_task "$dir" works h3 "--require-region"
    rm -r "$dir"
}
