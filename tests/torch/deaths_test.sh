#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A worker of examples/torch/train.py dies, hangs or loses its agent: all others end, within the deadline, with an error that
# names it.

# shellcheck source=tests/torch/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly steps=60 DEADLINE=10

gone() {
    ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null
}

# fails RANK TEXT: so the worker ends.
fails() {
    exit_of "${pids[$1]}"
    ((code != 0)) || fail "$dir: rank $1 succeeded"
    grep -qE "$2" "$dir/w$1.err" || fail "$dir: rank $1 said '$(tail -n 20 "$dir/w$1.err")', expected '$2'"
}

# all_say TEXT RANK... : these end so, within the deadline and what a busy machine takes to end a process.
all_say() {
    local -r text=$1 limit=$((DEADLINE + 10))
    local rank
    shift
    for rank; do wait_for "$limit" gone "${pids[rank]}"; done
    for rank; do fails "$rank" "$text"; done
}

lab_up --hosts "$workers" --rate "$rate"

begin killed
kill -KILL "${pids[2]}"
all_say 'h3 .*has left it: its application ended early' 0 1 3
pass "a worker killed"

begin stopped
kill -STOP "${pids[2]}"
all_say 'rank 2.*h3' 0 1 3
kill -KILL "${pids[2]}"
pass "a worker that hangs"

begin agent
lab_do kill h2 -KILL
all_say 'rank 1.*h2' 0 2 3
fails 1 'went away'
lab_do restart h2
pass "a worker's agent killed"
