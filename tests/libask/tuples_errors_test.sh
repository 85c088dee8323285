#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What goes wrong with a task through libask.so, in a lab: each end finishes with its code and a text that names who or what
# and the limit; nobody has a part of a result.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly tuples=$build/tests/ask-e2e-tuples

# receiver LOG TASK SENDERS OPTION... : on h3, or HOST; $spawned.
receiver() {
    spawn "$scratch/$1" "${HOST:-h3}" "$tuples" recv "$2" "$3" "${@:4}" <"${INPUT:-/dev/null}"
}

# sender LOG HOST VERB TASK OPTION... : to h3; $spawned.
sender() {
    spawn "$scratch/$1" "$2" "$tuples" "$3" "${FILE:-$data/in1.tsv}" "$4" h3 "${@:5}" <"${INPUT:-/dev/null}"
}

# ends LOG CODE TEXT PID: as expect, for who may have said before that he is at the half.
ends() {
    exit_of "$4"
    ((code == $2)) || fail "$1 ended with $code, not $2: $(cat "$scratch/$1".*)"
    grep -qE -- "$3" "$scratch/$1.err" || fail "$1 said '$(cat "$scratch/$1.err")', not '$3'"
}

at_half() {
    [[ -s $scratch/$1.out && $(<"$scratch/$1.out") == half ]]
}

wrong_task() {
    sender nobody h1 send nobody --deadline-ms 2000
    expect "$scratch/nobody" '4|10' 'nobody' "$spawned"
    receiver kind '' 1
    expect "$scratch/kind" 2 'task id' "$spawned"
    spawn "$scratch/where" h1 "$tuples" send "$data/in1.tsv" where nowhere --deadline-ms 2000 </dev/null
    expect "$scratch/where" 4 'nowhere' "$spawned"
    pass "a task, an id and a host that are not"
}

id_in_use() {
    receiver first used 1 --deadline-ms 6000
    local -r first=$spawned
    wait_for 10 opened h3 used
    receiver second used 1
    expect "$scratch/second" 5 'used' "$spawned"
    expect "$scratch/first" 10 'used.*(0 of 1|no sender|joined)' "$first"
    pass "an id in use, and a deadline that passes without a sender"
}

overflow() {
    printf '%s\n' $'fine\t1' $'large\t9223372036854775807' $'large\t1' >"$scratch/large.tsv"
    receiver sum large 1
    local -r receives=$spawned
    FILE=$scratch/large.tsv sender sends h1 send large
    local -r sends=$spawned
    expect "$scratch/sum" 12 'large' "$receives"
    expect "$scratch/sends" '11|12' 'large' "$sends"
    pass "a sum that leaves 64 bits names its key, at both ends"
}

cancelled() {
    open_pipe "$scratch/cancel.fifo"
    INPUT=$scratch/cancel.fifo receiver cancel cancel 1 --cancel-fd 0
    local -r receives=$spawned
    wait_for 10 opened h3 cancel
    echo >&9
    expect "$scratch/cancel" 11 'task cancel: cancelled: its cancel_fd is readable' "$receives"
    exec 9>&-
    pass "cancel_fd"
}

# held NAME [DEADLINE_MS]: a receiver, and a sender at its half; $receives, $sends.
held() {
    open_pipe "$scratch/$1.fifo"
    receiver "$1.recv" "$1" 1 --deadline-ms "${2-20000}"
    receives=$spawned
    INPUT=$scratch/$1.fifo sender "$1.send" h1 cut "$1" --merge 0
    sends=$spawned
    wait_for 10 at_half "$1.send"
}

sender_dies() {
    local receives sends
    held dies
    kill -KILL "$sends"
    expect "$scratch/dies.recv" 11 'sender h1 .*gave up: its application ended early' "$receives"
    exec 9>&-
    pass "a sender that dies in the middle is named"
}

receiver_dies() {
    local receives sends
    held gone
    kill -KILL "$receives"
    exec 9>&-
    ends gone.send 11 'gone' "$sends"
    pass "a receiver that dies in the middle"
}

agent_dies() {
    local receives sends
    held agent 6000
    lab_do kill h1 -KILL
    exec 9>&-
    ends agent.send 6 'task agent: the agent at .* went away, which ends the task' "$sends"
    sender away h1 send away
    expect "$scratch/away" 6 'no agent listens at .*start ask-agentd on this host' "$spawned"
    expect "$scratch/agent.recv" 10 'sender h1 .*has not been heard of for 6 s' "$receives"
    lab_do restart h1
    pass "an agent that dies in the middle, and one that is not there"
}

# What nobody confirms stays at the agent, and is taken by another.
not_confirmed() {
    open_pipe "$scratch/kept.fifo"
    INPUT=$scratch/kept.fifo receiver kept kept 1 --flags 1 --pause --deadline-ms 6000
    local -r receives=$spawned
    sender keeps h1 send kept
    local -r sends=$spawned
    expect "$scratch/keeps" 14 'kept' "$sends"
    exec 9>&-
    ends kept '6|14' 'kept' "$receives"
    receiver again kept 1 --flags 33
    exit_of "$spawned"
    ((code == 0)) || fail "again ended with $code: $(<"$scratch/again.err")"
    cmp "$scratch/again.out" "$data/expected.tsv" || fail "what was kept is not the result"
    pass "a result that is not confirmed is an error of its senders, and kept"
}

readonly data=$scratch/data
make_input "$data" --seed 41 --senders 1 --tuples 20000 --keys 1500
lab_up --hosts 3
wrong_task
overflow
cancelled
sender_dies
receiver_dies
agent_dies
not_confirmed
beside_each_other id_in_use
