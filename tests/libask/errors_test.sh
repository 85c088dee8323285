#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What members of a group do wrong, or what happens to them, through libask.so: each ends with its code and a text that
# names who or what, and what to do next.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

# start NAME HOST GROUP RANK SIZE STEP... : $spawned. Its root is h1, or ROOT; its standard input is descriptor 9's pipe, if
# there is one. FLAGS are further ones.
start() {
    local -r log=$scratch/$1 host=$2
    local -a flags
    read -ra flags <<<"${FLAGS-}"
    spawn "$log" "$host" "$build/tests/ask-e2e-member" --group "$3" --rank "$4" --size "$5" --root "${ROOT:-h1}" \
        --deadline-ms "${DEADLINE_MS:-6000}" "${flags[@]}" "${@:6}" <"${INPUT:-/dev/null}"
}

# ends NAME PID CODE TEXT: and said so; TEXT is a regular expression.
ends() {
    exit_of "$2"
    ((code == $3)) || fail "$1 ended with $code, not $3: $(cat "$scratch/$1.err")"
    [[ -z $4 ]] || grep -qE -- "$4" "$scratch/$1.err" || fail "$1 said '$(cat "$scratch/$1.err")', not '$4'"
}

has_joined() {
    [[ -s $scratch/$1.out && $(<"$scratch/$1.out") == joined ]]
}

# One alone, refused at once.
alone() {
    local -r what=$1 want=$2 text=$3
    shift 3
    start alone "$@"
    ends alone "$spawned" "$want" "$text"
    pass "$what"
}

wrong_count() {
    start c0 h1 counts 0 2 barrier allreduce:1000
    local -r zero=$spawned
    start c1 h2 counts 1 2 barrier allreduce:999
    ends c0 "$zero" 3 'counts: members differ.*rank 0 runs .*rank 1 runs|counts: members differ.*rank 1 runs .*rank 0 runs'
    ends c1 "$spawned" 3 'of another length'
    grep -q 'all must begin the same operations' "$scratch/c0.err" || fail "c0 does not say what to do: $(cat "$scratch/c0.err")"
    pass "a wrong count"
}

wrong_root() {
    start r0 h1 roots 0 2 bcast:1000:0
    local -r zero=$spawned
    start r1 h2 roots 1 2 bcast:1000:1
    ends r0 "$zero" 3 'members differ'
    ends r1 "$spawned" 3 'members differ.*root'
    pass "a wrong root of an operation"
}

rank_taken() {
    open_pipe "$scratch/fifo"
    INPUT=$scratch/fifo start t0 h1 taken 0 2 joined pause
    local -r zero=$spawned
    INPUT=$scratch/fifo start t1 h2 taken 1 2 joined pause
    local -r one=$spawned
    wait_for 10 has_joined t0
    wait_for 10 has_joined t1
    alone "a rank that is taken" 5 'taken: rank 1 is taken by h2.*a rank of its own' h3 taken 1 2
    alone "a group of another size" 3 'taken: h3.*joins a group of 3, and the root has one of 2' h3 taken 1 3
    exec 9>&-
    ends t0 "$zero" 0 ''
    ends t1 "$one" 0 ''
}

# Whoever comes second is refused.
one_a_host() {
    start s0 h1 same 0 3
    local -r zero=$spawned
    start s1 h2 same 1 3
    local -r one=$spawned
    start s2 h2 same 2 3
    local -r two=$spawned
    exit_of "$zero"
    exit_of "$one"
    exit_of "$two"
    cat "$scratch"/s[012].err >"$scratch/said"
    grep -qE 'unsupported: .*group same: h2 .* has rank [12] already: a host has one member of a group' "$scratch/said" ||
        fail "two members of a host: $(<"$scratch/said")"
    pass "two members of a host"
}

no_root() {
    start root h2 rootless 1 2
    ends root "$spawned" 10 'rootless: .*h1.*start its member there'
    pass "a root whose member does not come"
}

deadline_to_join() {
    DEADLINE_MS=15000 start d0 h1 late 0 4
    local -r zero=$spawned
    start d2 h3 late 2 4
    # Who has given up is missing, too.
    ends d2 "$spawned" 10 'late: ranks 1, 3 of 4 did not join within 6 s: start them, or allow more time'
    ends d0 "$zero" 10 'late: ranks 1, 2, 3 of 4 did not join within 15 s: start them'
    pass "a deadline to join names who did not come"
}

deadline_of_an_operation() {
    open_pipe "$scratch/fifo"
    start o0 h1 idle 0 2 barrier allreduce:1000
    local -r zero=$spawned
    INPUT=$scratch/fifo start o1 h2 idle 1 2 barrier pause allreduce:1000
    ends o0 "$zero" 10 'idle: operation 2.*no result within 6 s; missing: rank 1, h2'
    exec 9>&-
    ends o1 "$spawned" 10 'idle: '
    pass "a deadline of an operation names who has not begun it"
}

knows_of_cancel() {
    grep -q 'group cancel: .*ended early' "$ASK_LAB_DIR/$name/logs/$1.log"
}

cancelled() {
    open_pipe "$scratch/fifo"
    INPUT=$scratch/fifo FLAGS='--cancel-fd 0' DEADLINE_MS=20000 start x0 h1 cancel 0 2 joined barrier
    local -r zero=$spawned
    INPUT=$scratch/fifo DEADLINE_MS=20000 start x1 h2 cancel 1 2 joined pause barrier
    wait_for 10 has_joined x0
    wait_for 10 has_joined x1
    echo >&9
    ends x0 "$zero" 11 'cancel: .*cancel_fd'
    # Before it is known there, a switch may have added both to the barrier, which is then passed.
    wait_for 10 knows_of_cancel h2
    exec 9>&-
    ends x1 "$spawned" 11 'cancel: .*h1'
    pass "cancel_fd"
}

agent_gone() {
    open_pipe "$scratch/fifo"
    INPUT=$scratch/fifo start a0 h1 gone 0 2 joined barrier
    local -r zero=$spawned
    INPUT=$scratch/fifo start a1 h2 gone 1 2 joined pause barrier
    wait_for 10 has_joined a1
    lab_do kill h2 -KILL
    exec 9>&-
    ends a1 "$spawned" 6 'gone: the agent at .* went away.*its log says why'
    exit_of "$zero"
    alone "an agent that is away" 6 'no agent listens at .*start ask-agentd on this host' h2 away 0 1
    lab_do restart h2
}

lab_up --hosts 3
alone "65 members" 9 'wide: 65 members; the limit is 64' h1 wide 0 65
alone "a rank past the size" 2 'past: rank 3 of a size of 3' h1 past 3 3
ROOT=nowhere alone "an unknown root" 4 'nowhere.*\[hosts\]' h1 lost 0 2
alone "a root of an operation past the size" 2 'root 5 of a size of 1' h1 far 0 1 bcast:10:5
alone "more than the arena" 9 'arena.*arena_bytes' h1 arena 0 1 allreduce:9000000
wrong_count
wrong_root
rank_taken
cancelled
beside_each_other no_root one_a_host deadline_to_join deadline_of_an_operation
agent_gone
