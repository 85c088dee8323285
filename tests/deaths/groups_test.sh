#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Members of groups die, hang, never come, or disagree: the group fails at all that are left, within the deadline, with an
# error that names who or what, and nothing is left.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/groups.sh
source "$root/tests/e2e/groups.sh"

# Longer than a busy machine lets anybody stand still who is not meant to.
DEADLINE=5

# begin GROUP [LATE]: three members, 40 MB each, in the middle; sets $dir and $members.
begin() {
    dir=$scratch/$1
    make_vectors "$dir" --seed 1 --members 3 --count 3000000
    start_group "$dir" "$1"
    wait_for 20 has_sent h2 $(($(carried h2) + 1000000))
    still_runs "$dir"
    mapfile -t members <"$dir/pids"
}

# fails RANK CODE TEXT: so the member ends.
fails() {
    ends_in 30 "${members[$1]}"
    expect "$dir/m$1" "$2" "$3" "${members[$1]}"
}

member_killed() {
    begin killed
    kill -KILL "${members[1]}"
    fails 0 11 'h2 .*has left it: its application ended early'
    fails 2 11 'h2 .*has left it: its application ended early'
    nothing_left "a member's application is killed"
}

root_member_killed() {
    begin rootapp
    kill -KILL "${members[0]}"
    fails 1 11 'h1'
    fails 2 11 'h1'
    nothing_left "the root's application is killed"
}

member_interrupted() {
    begin interrupted
    kill -INT "${members[2]}"
    fails 2 130 'interrupted'
    fails 0 11 'h3 .*has left it'
    fails 1 11 'h3 .*has left it'
    nothing_left "a member is interrupted"
}

agent_killed() {
    begin agent
    lab_do kill h2 -KILL
    fails 1 6 'went away'
    fails 0 10 'rank 1.*h2'
    fails 2 10 'rank 1.*h2'
    lab_do restart h2
    nothing_left "a member's agent is killed"
}

root_agent_killed() {
    begin rootagent
    lab_do kill h1 -KILL
    fails 0 6 'went away'
    fails 1 '6|10' 'h1'
    fails 2 '6|10' 'h1'
    lab_do restart h1
    nothing_left "the root's agent is killed" $((lease + 10))
}

# As SIGSTOP of its agent, or a host that hangs.
agent_hangs() {
    begin hangs
    lab_do kill h3 -STOP
    fails 0 10 'rank 2.*h3'
    fails 1 10 'rank 2.*h3'
    lab_do kill h3 -CONT
    fails 2 '6|10|11' 'h1|hangs'
    nothing_left "a member's agent hangs"
}

# Its members' channels have no flow before all have come, and the switch gives up those that have none.
comes_late() {
    local rank
    dir=$scratch/late
    make_vectors "$dir" --seed 1 --members 3 --count 100
    : >"$dir/pids"
    for rank in 0 1 2; do
        ((rank < 2)) || sleep $((lease + 2)) # it is to come when a lease has passed
        DEADLINE=30 member "$dir" late "$rank" 3
        printf '%s\n' "$spawned" >>"$dir/pids"
    done
    finish_group "$dir"
    jq -e '.note | startswith("the switch adds")' "$dir/m0.json" >/dev/null || fail "late: $(jq -c .note "$dir/m0.json")"
    nothing_left "a member that comes late finds the others registered"
}

never_comes() {
    dir=$scratch/absent
    make_vectors "$dir" --seed 1 --members 3 --count 100
    for rank in 0 1; do
        member "$dir" absent "$rank" 3
        members[rank]=$spawned
    done
    fails 0 10 'rank 2'
    fails 1 10 'rank 2'
    nothing_left "a member never comes"
}

# refused TEXT RANK SIZE FLAG... : this one is refused.
refused() {
    local -r text=$1 rank=$2 size=$3
    shift 3
    member "$dir" refused "$rank" "$size" "$@"
    ends_in 15 "$spawned"
    expect "$dir/m$rank" '[2-9]|10' "$text" "$spawned"
}

wrong_calls() {
    dir=$scratch/wrong
    make_vectors "$dir" --seed 1 --members 3 --count 100
    refused 'size 65|64' 0 65
    cp "$dir/in2" "$dir/in3"
    refused 'rank' 3 3
    ROOT=nowhere refused 'nowhere' 1 3
    refused 'start its member there' 1 3
    head -c 801 /dev/zero >"$dir/in2"
    refused '801 bytes' 2 3
    member "$dir" xor 0 1 --dtype float64 --op xor
    members[0]=$spawned
    fails 0 '[2-9]' 'float64'
    nothing_left "calls that are wrong"
}

# disagree GROUP "FLAGS OF 0" "FLAGS OF 1" TEXT
disagree() {
    local -a one two
    read -ra one <<<"$2"
    read -ra two <<<"$3"
    dir=$scratch/$1
    make_vectors "$dir" --seed 1 --members 2 --count 1000
    [[ $1 != lengths ]] || head -c 4000 "$dir/in0" >"$dir/in1"
    member "$dir" "$1" 0 2 "${one[@]}"
    members[0]=$spawned
    member "$dir" "$1" 1 2 "${two[@]}"
    members[1]=$spawned
    fails 0 '[0-9]+' "$4"
    fails 1 '[0-9]+' "$4"
}

members_disagree() {
    disagree ops "--op min" "--op max" 'differ.*(min.*max|max.*min)'
    disagree types "--dtype int32" "--dtype int64" 'differ.*(int32.*int64|int64.*int32)'
    disagree lengths "" "" 'differ.*length'
    nothing_left "members disagree"
}

rank_taken() {
    dir=$scratch/taken
    make_vectors "$dir" --seed 1 --members 3 --count 100
    member "$dir" taken 0 3
    members[0]=$spawned
    member "$dir" taken 1 3
    members[1]=$spawned
    spawn "$dir/m2" h3 ask-allreduce --group taken --rank 1 --size 3 --root h1 --deadline "$DEADLINE" "$dir/in2" </dev/null
    members[2]=$spawned
    ends_in 30 "${members[@]}"
    grep -hq 'rank 1' "$dir"/m?.err || fail "nobody says that rank 1 is taken: $(tail "$dir"/m?.err)"
    for rank in 0 1 2; do exit_of "${members[rank]}"; ((code != 0)) || fail "rank $rank succeeded"; done
    nothing_left "a rank is taken"
}

printf 'value_slots = 4096\n' >"$scratch/slots.toml"
deaths_lab --hosts 4 --rate 60M --config-switch "$scratch/slots.toml"
make_vectors "$scratch/warmth" --seed 2 --members 4 --count 1000
run_group "$scratch/warmth" warmth
snapshot
for case in wrong_calls member_killed root_member_killed member_interrupted agent_killed root_agent_killed agent_hangs \
    comes_late never_comes members_disagree rank_taken; do
    [[ -n ${1-} && $1 != "$case" ]] || "$case"
done
