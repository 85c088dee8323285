#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests of tools/demo: demo_test.sh TEST. The first one holds what the project promises of its default text.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d /tmp/ask-demo-test.XXXXXX)
# Labs of this test are found, and undone, by their own state directory.
export ASK_LAB_DIR=$scratch/labs
readonly root scratch

background=

cleanup() {
    trap '' INT TERM
    if [[ -n $background ]]; then
        kill -TERM "$background" 2>/dev/null || true
        wait "$background" 2>/dev/null || true
    fi
    "$root/tools/lab" down --all || true
    rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    printf 'FAIL line %s: %s\n' "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

# promise TEXT JQ_CONDITION : over $scratch/report
promise() {
    jq -e "$2" "$scratch/report" >/dev/null || fail "$1: $(cat "$scratch/report")"
}

demo() {
    "$root/tools/demo" "$@"
}

# shellcheck disable=SC2016  # $w is jq's
test_whole_text() {
    demo --json >"$scratch/report"
    promise "several million words" '.words > 3000000'
    promise "four runs, all correct" '[.runs[].correct] == [true, true, true, true]'
    promise "the switch alone: 85 % never reach the receiver" '.runs[0] | .name == "switch" and .never_reached_receiver >= 0.85'
    promise "the switch alone merges nothing before it" '.runs[0].tuples.merged == 0'
    promise "with merging: 95 % never reach the receiver" '.runs[1] | .name == "paper" and .never_reached_receiver >= 0.95'
    promise "wide: 97 % never reach the receiver" '.runs[2] | .name == "wide" and .never_reached_receiver >= 0.97'
    promise "with merging: a tenth of the plain link's packets" 'all(.runs[1:3][]; .receiver_link_share.packets <= 0.1)'
    promise "with merging: a tenth of the plain link's bytes" 'all(.runs[1:3][]; .receiver_link_share.bytes <= 0.1)'
    # Every tuple is somewhere, once.
    promise "tuples add up" 'all(.runs[].tuples; .in == .merged + .sent and .sent == .switch + .receiver.total)'
    promise "every tuple was handed in" '.words as $w | all(.runs[].tuples; .in == $w)'
    promise "the plain run used no switch" '.runs[3].tuples.switch == 0 and .runs[3].tuples.merged == 0'
}

test_own_files() {
    printf "It's one small step; ONE giant leap -- na\xc3\xafve" >"$scratch/a"
    printf 'one\n' >"$scratch/b"
    demo --no-compare --geometry '8+4x2*2' --aggregators 64 "$scratch/a" "$scratch/b" >"$scratch/out" || fail "$(cat "$scratch/out")"
    grep -q "the most frequent of 11 words, 9 of them distinct" "$scratch/out" || fail "$(cat "$scratch/out")"
    grep -qE '^ +3  one$' "$scratch/out" || fail "$(cat "$scratch/out")"
    : >"$scratch/empty"
    ! demo "$scratch/empty" 2>"$scratch/said" >&2 || fail "a text without words passes"
    grep -q "no words in" "$scratch/said" || fail "$(cat "$scratch/said")"
    ! demo "$scratch/none" 2>"$scratch/said" >&2 || fail "a missing file passes"
    grep -q "cannot read $scratch/none" "$scratch/said" || fail "$(cat "$scratch/said")"
}

test_allreduce() {
    demo allreduce --json >"$scratch/report"
    promise "both runs are exact" '[.runs[] | [.name, .correct]] == [["switch", true], ["collector", true]]'
    promise "the collector receives and sends less than half of what it would" \
        '[.runs[].links.h1] | .[0].received < .[1].received / 2 and .[0].sent < .[1].sent / 2'
}

lab_is_up() {
    compgen -G "$ASK_LAB_DIR/*/ready" >/dev/null
}

# A signal in the middle leaves neither lab nor files.
test_killed() {
    local got=0
    export TMPDIR=$scratch/tmp
    mkdir "$TMPDIR"
    "$root/tools/demo" >"$scratch/out" 2>&1 &
    background=$!
    local -r pid=$background deadline=$((SECONDS + 60))
    until lab_is_up; do
        kill -0 "$pid" 2>/dev/null || fail "the demo ended by itself: $(cat "$scratch/out")"
        ((SECONDS < deadline)) || fail "no lab within a minute: $(cat "$scratch/out")"
        sleep 0.05
    done
    kill -TERM "$pid"
    wait "$pid" || got=$?
    ((got == 143)) || fail "exit code $got: $(cat "$scratch/out")"
    [[ ! -e $ASK_LAB_DIR ]] || fail "labs left: $(ls "$ASK_LAB_DIR")"
    [[ -z $(ls -A "$TMPDIR") ]] || fail "files left: $(ls -A "$TMPDIR")"
}

[[ $(type -t "test_${1-}") == function ]] || { echo "usage: $0 $(compgen -A function test_ | sed s/test_// | paste -sd'|')" >&2 && exit 2; }
"test_$1"
echo "ok $1"
