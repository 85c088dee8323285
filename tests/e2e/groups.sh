# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests of groups share: members started and checked. Source it after lib.sh.
#
# build, scratch, spawned and code are lib.sh's.
# shellcheck disable=SC2154

# make_vectors DIR OPTION... : as ask-e2e-values.
make_vectors() {
    local -r dir=$1
    shift
    mkdir -p "$dir"
    "$build/tests/ask-e2e-values" --out "$dir" "$@"
}

# member DIR GROUP RANK SIZE FLAG... : in the background, on the host of its rank from h1 on; $spawned is its process. A
# host has one member of a group. Root is h1, or ROOT.
member() {
    local -r dir=$1 group=$2 rank=$3 size=$4
    shift 4
    spawn "$dir/m$rank" "h$((rank + 1))" ask-allreduce --group "$group" --rank "$rank" --size "$size" \
        --root "${ROOT:-h1}" --deadline "${DEADLINE:-20}" --json "$dir/m$rank.json" "$@" "$dir/in$rank" </dev/null
}

# start_group DIR GROUP FLAG... : a member for each DIR/inR. Their processes go to DIR/pids, a line each.
start_group() {
    local -r dir=$1 group=$2
    local -a inputs=("$dir"/in*)
    local rank
    shift 2
    : >"$dir/pids"
    for ((rank = 0; rank < ${#inputs[@]}; rank++)); do
        member "$dir" "$group" "$rank" "${#inputs[@]}" "$@"
        printf '%s\n' "$spawned" >>"$dir/pids"
    done
}

# finish_group DIR: all succeed, and each has the reference's bytes.
finish_group() {
    local -r dir=$1
    local pid rank=0
    while read -r pid; do
        exit_of "$pid"
        ((code == 0)) || fail "$dir: rank $rank ended with $code: $(tail -n 20 "$dir"/m*.err)"
        [[ ! -s $dir/m$rank.err ]] || fail "$dir: rank $rank said: $(cat "$dir/m$rank.err")"
        cmp "$dir/m$rank.out" "$dir/expected" >"$dir/differs" 2>&1 ||
            fail "$dir: rank $rank has a wrong result: $(cat "$dir/differs"), $(stat -c %s "$dir/m$rank.out" "$dir/expected" | xargs) bytes"
        rank=$((rank + 1))
    done <"$dir/pids"
}

run_group() {
    start_group "$@"
    finish_group "$1"
}

# reduce_vectors GROUP "FLAGS" GENERATOR_OPTION... : made, run, checked, and thrown away.
reduce_vectors() {
    local -r group=$1 dir=$scratch/$1
    local -a flags
    read -ra flags <<<"$2"
    shift 2
    make_vectors "$dir" "$@"
    run_group "$dir" "$group" "${flags[@]}"
    rm -r "$dir"
}

# carried HOST [rx]: bytes that it has sent, or received.
carried() {
    on "$1" ip -stats -json link show dev eth0 | jq ".[0].stats64.${2:-tx}.bytes"
}

# has_sent HOST BYTES
has_sent() {
    (($(carried "$1") >= $2))
}

# under_way HOST BYTES: waits until the host has sent so much more; the group is in the middle then.
under_way() {
    wait_for 20 has_sent "$1" $(($(carried "$1") + $2))
}

# still_runs DIR: nobody has ended, so what was done was done in the middle.
still_runs() {
    local pid
    while read -r pid; do
        kill -0 "$pid" 2>/dev/null || fail "$1: a member had ended before: the test came too late"
    done <"$1/pids"
}

# group_shows HOST GROUP JQ: of that group there.
group_shows() {
    on "$1" askctl groups "$2" --json 2>/dev/null | jq -e "$3" >/dev/null
}

# explains HOST GROUP TEXT: a regular expression that its words hold.
explains() {
    on "$1" askctl group explain "$2" 2>/dev/null | tr '\n' ' ' | grep -qE -- "$3"
}

# must_explain HOST GROUP TEXT: within the time that a look needs to show it.
must_explain() {
    local -r until=$((SECONDS + 20 * ${ASK_TEST_PATIENCE:-1}))
    until explains "$@"; do
        ((SECONDS < until)) || fail "explain of $2 on $1 does not say '$3': $(on "$1" askctl group explain "$2" 2>&1)"
        sleep 0.1  # between two looks: nothing tells that the text has changed, which follows what the agent last heard
    done
}

# Several switches.

# map_entries SWITCH MAP
map_entries() {
    bpftool -j map dump pinned "$ASK_LAB_DIR/$name/bpf/$1/ask/maps/$2" | jq length
}

# has_no_group SWITCH HOST... : neither group, flow, fan nor slots, and no channel but those of these hosts (1: h1), whose
# first switch it is.
has_no_group() {
    local -r at=$1
    local host known=
    shift
    for host; do known+="\"198.18.$host.2\","; done
    on "$at" askctl groups --json | jq -e '.groups == [] and .pool.bytes == 0' >/dev/null &&
        on "$at" askctl status --json | jq -e "all(.channels[]; .channel.host | IN(${known%,}))" >/dev/null &&
        (($(map_entries "$at" flow_ids) == 0 && $(map_entries "$at" fan_members) == 0))
}
