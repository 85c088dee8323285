#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the soak lets pass, and what it does not: rounds made up from files and exit codes.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
soak_work=$(mktemp -d /tmp/ask-soak-judge.XXXXXX)
trap 'rm -rf --one-file-system "$soak_work"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# shellcheck source=tools/lib/soak_judge.sh
source "$root/tools/lib/soak_judge.sh"
# shellcheck source=tools/lib/soak_groups.sh
source "$root/tools/lib/soak_groups.sh"

# The judge's, as soak_run.sh has them.
# shellcheck disable=SC2034
declare -A plan soak_end current takers sends hurt counts end_ms
# shellcheck disable=SC2034
round_began=0 events_end=0
soak_why=
soak_summary=
dir=$soak_work/round

wrong() {
    soak_why=$*
    return 1
}

# printed WHO CODE [LINE...] : a process of the round.
printed() {
    local -r who=$1
    soak_end[$who]=$2
    shift 2
    : >"$dir/$who.err"
    printf '%s\n' "$@" | sed '/^$/d' >"$dir/$who.out"
}

# A round of task 1, received on h1, of senders on h2 and h3, that has gone well.
good_round() {
    rm -rf "$dir"
    mkdir -p "$dir/task1"
    printf '1:a\t3\n1:b\t-4\n2:a\t5\n' >"$dir/task1/expected.tsv"
    printf '1:a\t1\t3\n1:b\t-4\t-1\n2:a\t2\t5\n' >"$dir/task1/bounds.tsv"
    plan=([1.id]=made-up [1.to]=h1 [1.from]="h2 h3" [1.senders]=2 [1.deadline]=8 [1.again]=at-once [1.output]='')
    hurt=() soak_end=() counts=([tasks]=0 [exact]=0 [incomplete]=0 [kept]=0 [errors]=0 [unaimed]=0)
    current=([1.recv]=1.recv1 [1.send1]=1.send1.2 [1.send2]=1.send2.3)
    takers=([1]=1.recv1) sends=([1]="1.send1.2 1.send2.3") end_ms=([1]=0)
    printed 1.recv1 0 $'1:a\t3' $'1:b\t-4' $'2:a\t5'
    printed 1.send1.2 0
    printed 1.send2.3 0
}

# incomplete_round JSON LINE... : the same with a sender on h3 that was killed, what is said to be missing, and the result.
incomplete_round() {
    good_round
    plan[1.incomplete]=1
    hurt[1]=1
    soak_end[1.send2.3]=137
    printed 1.recv1 20 "${@:2}"
    printf '{"complete": false, "missing": %s}\n' "$1" >"$dir/1.recv1.json"
}

# failed_round WORDS: the same without a result.
failed_round() {
    good_round
    printed 1.recv1 10
    printf '%s\n' "$1" >"$dir/1.recv1.err"
    soak_end[1.send1.2]=10 soak_end[1.send2.3]=10
}

# kept_round CODE: the same with a receiver that was refused its output, and senders that ended with CODE; its result is
# taken again.
kept_round() {
    good_round
    plan[1.output]=/dev/full
    takers[1]+=" 1.again4"
    mv "$dir/1.recv1.out" "$dir/1.again4.out"
    : >"$dir/1.recv1.out"
    : >"$dir/1.again4.err"
    echo 'standard output: No space left on device: the result of task made-up is not taken' >"$dir/1.recv1.err"
    soak_end[1.recv1]=9 soak_end[1.again4]=0 soak_end[1.send1.2]=$1 soak_end[1.send2.3]=$1
}

fail() {
    printf 'FAIL line %s: %s\n' "${BASH_LINENO[1]}" "$*" >&2
    exit 1
}

passes() {
    soak_why=
    judge 1 || fail "found wrong: $soak_why"
}

# finds WORDS
finds() {
    soak_why=
    ! judge 1 || fail "passed"
    [[ $soak_why == *"$1"* ]] || fail "said: $soak_why"
}

# counted NAME: once in the last round.
counted() {
    ((counts[$1] == 1)) || fail "${counts[$1]} $1"
}

good_round && passes
good_round && printed 1.recv1 0 $'1:a\t3' $'2:a\t5' && finds "WRONG ANSWER"
good_round && soak_end[1.send2.3]=10 && finds "has its result, but 1.send2.3"
good_round && soak_end[1.send2.3]=10 && hurt[1]=1 && passes
echo "ok results"

failed_round "sender h3 has not been heard of" && passes
counted errors
counted unaimed
failed_round "something went wrong" && finds "names nobody"
failed_round "sender h3 has not been heard of" && soak_end[1.send1.2]=0 && finds "a send succeeded"
failed_round "sender h3 has not been heard of" && printf '1:a\t3\n' >"$dir/1.recv1.out" && finds "yet printed a result"
failed_round "" && soak_end[1.recv1]=137 && hurt[1]=1 && printf '1:a\t3\n' >"$dir/1.recv1.out" && passes
failed_round "" && soak_end[1.recv1]=137 && hurt[1]=1 && printf '1:a\t4\n' >"$dir/1.recv1.out" && finds "WRONG ANSWER"
echo "ok errors"

kept_round 0 && passes
counted kept
kept_round 14 && finds "has its result, but"
kept_round 14 && plan[1.again]=late && passes
kept_round 0 && soak_end[1.again4]=4 && : >"$dir/1.again4.out" && finds "names nobody: 1.again4"
kept_round 0 && soak_end[1.again4]=4 && : >"$dir/1.again4.out" && echo 'no result is kept here' >"$dir/1.again4.err" &&
    finds "a send succeeded"
kept_round 0 && printf '1:a\t4\n' >"$dir/1.again4.out" && finds "WRONG ANSWER"
echo "ok kept results"

readonly h3='[{"name": "h3", "senders": 1, "reason": "gave up"}]'
incomplete_round "$h3" $'1:a\t3' $'1:b\t-4' && passes
incomplete_round "$h3" $'1:a\t3' $'1:b\t-4' $'2:a\t2' && passes
counted incomplete
incomplete_round "$h3" $'1:a\t3' $'1:b\t-4' $'2:a\t6' && finds "WRONG ANSWER of the incomplete"
incomplete_round "$h3" $'1:a\t3' $'1:b\t-4' $'2:c\t2' && finds "WRONG ANSWER of the incomplete"
incomplete_round "$h3" $'1:a\t3' $'1:b\t-3' && finds "sender 1 of the incomplete task made-up succeeded, and lacks"
incomplete_round '[{"name": "h2", "senders": 1, "reason": "gave up"}]' $'1:a\t3' $'1:b\t-4' && finds "does not name"
incomplete_round '[{"name": "", "senders": 1, "reason": "did not join"}]' $'1:a\t3' $'1:b\t-4' && passes
incomplete_round "$h3" $'1:a\t3' $'1:b\t-4' && unset 'plan[1.incomplete]' && finds "may not be incomplete"
incomplete_round "$h3" $'1:a\t3' $'1:b\t-4' && echo '{"complete": true, "missing": []}' >"$dir/1.recv1.json" && finds "does not name"
incomplete_round "$h3" $'1:a\t3' $'1:b\t-4' && sed -i 's/false/true/' "$dir/1.recv1.json" && finds "said to be complete"
echo "ok incomplete results"

readonly gone="sender h3 has not been heard of" longest=$((3 * 8000 + BUSY_MS))
failed_round "$gone" && end_ms[1]=$longest && passes
failed_round "$gone" && end_ms[1]=$((longest + 1)) && finds "with a deadline of 8 s"
failed_round "$gone" && end_ms[1]=$((longest + 1)) && plan[1.pause]="1 30 2000" && passes
good_round && end_ms[1]=$((longest + 1)) && passes
echo "ok deadlines"

# A group of three on h2, h1 and h3, with h1 as its root, of which rank 1 was killed and the others went on.
group_round() {
    rm -rf "$dir"
    mkdir -p "$dir"
    plan=([1.group]=1 [1.id]=made-up [1.hosts]="h2 h1 h3" [1.to]=h1 [1.from]=" h2 h3 " [1.senders]=3 [1.deadline]=8)
    hurt=([1]=1) soak_end=() counts=([unaimed]=0) end_ms=([1]=0)
    current=([1.member0]=1.member0.1 [1.member1]=1.member1.2 [1.member2]=1.member2.3)
    printed 1.member0.1 0 "op 1 0,1,2" "op 9 0,2" "done 9 0,2"
    printed 1.member1.2 137 "op 1 0,1,2"
    printed 1.member2.3 0 "done 9 0,2"
}

group_round && passes
counted shrunk
group_round && soak_end[1.member2.3]=99 && finds "WRONG ANSWER of group made-up"
group_round && printed 1.member2.3 0 "done 9 2" && finds "ended well with 0,2 and with 2 left"
group_round && printed 1.member0.1 0 "done 9 1,2" && finds "not itself"
group_round && printed 1.member0.1 0 "op 9 0,2" && finds "not itself"
group_round && soak_end[1.member1.2]=11 && finds "names nobody"
group_round && soak_end[1.member1.2]=11 && echo "cannot shrink: the root h1 is silent" >"$dir/1.member1.2.err" && passes
group_round && soak_end[1.member1.2]=11 && echo "made-up: ranks 0, 2 of 3 did not join within 6 s" >"$dir/1.member1.2.err" && passes
group_round && hurt=() && soak_end[1.member1.2]=11 && echo "h1 is silent" >"$dir/1.member1.2.err" && passes
counted unaimed
group_round && end_ms[1]=999999 && finds "ended 999999 ms after"
group_round && hurt=() && printed 1.member0.1 0 "done 9 0,1,2" && printed 1.member1.2 0 "done 9 0,1,2" && printed 1.member2.3 0 "done 9 0,1,2" && passes
counted whole
echo "ok groups"
