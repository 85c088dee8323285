#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The tutorial of docs/tuples.md as it stands there: the Python blocks of a step at the same time, each on the hosts that its
# first line names. What the first of a step prints is what the document shows.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly steps=$scratch/steps

# Block N of a step to $steps/STEP.N.python, or .text, what is to be printed.
split_steps() {
    mkdir "$steps"
    awk -v into="$steps" '
        /^## / { inside = $0 == "## Tutorial" }
        inside && /^### / { step = substr($2, 1, 1); n = 0 }
        /^```/ && open { open = 0; next }
        /^```/ && inside { open = step != "" && /^```(python|text)$/; name = sprintf("%s/%s.%d.%s", into, step, ++n, substr($0, 4)); next }
        open { print >name }' "$root/docs/tuples.md"
}

# run_block FILE: on each of its hosts; their processes go to $pids.
run_block() {
    local host line
    local -a hosts
    read -r line <"$1"
    IFS=', ' read -ra hosts <<<"${line#\# on }"
    for host in "${hosts[@]}"; do
        [[ $host == h[1-4] ]] || fail "$1 begins with no '# on HOST'"
        spawn "$1.$host" "$host" env PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1 ASK_LIBRARY="$build/lib/ask/libask.so.0" \
            /usr/bin/python3 "$1" </dev/null
        pids+=("$spawned")
    done
}

run_step() {
    local -a blocks=("$steps/$1".*.python) wants=("$steps/$1".*.text) prints=() pids=()
    local each
    for each in "${blocks[@]}"; do run_block "$each"; done
    for each in "${pids[@]}"; do
        exit_of "$each"
        ((code == 0)) || fail "step $1: one ended with $code: $(cat "$steps/$1".*.err)"
    done
    prints=("${blocks[0]}".h?.out)
    diff "${wants[0]}" "${prints[0]}" || fail "step $1 prints (>) what the document does not show (<)"
    pass "step $1"
}

split_steps
lab_up --hosts 4
for step in 1 2 3 4 5 6; do run_step "$step"; done
[[ ! -e $steps/7.1.python ]] || fail "the tutorial has more than six steps"
