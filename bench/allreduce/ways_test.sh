#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ways_test.sh PROGRAM: the ways over TCP give every member the sum, for any number of members and elements; a member
# that dies is an error at the others.

set -euo pipefail

readonly program=$1
# A namespace of its own: ports are nobody else's, and addresses of lo as many as members.
if [[ -z ${ASK_WAYS_INSIDE-} ]]; then
    ASK_WAYS_INSIDE=1 exec unshare --map-root-user --net "$0" "$@"
fi
ip link set lo up
scratch=$(mktemp -d /tmp/ask-ways.XXXXXX)
trap 'for pid in $(jobs -pr); do kill "$pid" || true; done; rm -rf "$scratch"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# members WAY SIZE ARGUMENT... : one each, and what they say.
members() {
    local -r way=$1 size=$2
    local rank hosts=
    shift 2
    for ((rank = 0; rank < size; rank++)); do hosts+=127.0.0.$((rank + 1)),; done
    local -a where=(--hosts "${hosts%,}")
    if [[ $way == push ]]; then
        where=(--server 127.0.0.1)
        "$program" server --size "$size" "$@" &
    fi
    for ((rank = 0; rank < size; rank++)); do
        "$program" "$way" --rank "$rank" --size "$size" "${where[@]}" "$@" >"$scratch/$rank" &
    done
}

everybody() {
    local pid
    for pid in $(jobs -p); do wait "$pid" || fail "$way of $size, $dtype x $count: a member ended with $?"; done
    [[ $(cat "$scratch"/* | jq -s 'map(select((.seconds | length) == 2 and (.short | length) == 3 and (.barrier | length) == 3 and .bytes > 0)) | length') == "$size" ]] ||
        fail "$way of $size, $dtype x $count: not everybody reported: $(cat "$scratch"/*)"
    rm "$scratch"/*
}

for way in ring push; do
    for size in 1 2 3 8; do
        for dtype in int32 float64; do
            for count in 1 5 100003; do
                members "$way" "$size" --dtype "$dtype" --count "$count" --runs 2 --shorts 3
                everybody
            done
        done
    done
    # Nobody else comes.
    where=(--server 127.0.0.1)
    [[ $way != ring ]] || where=(--hosts "127.0.0.1,127.0.0.2")
    "$program" "$way" --rank 0 --size 2 "${where[@]}" --deadline 1 >/dev/null 2>"$scratch/err" && fail "$way: a member alone has succeeded"
    grep -q 'connect to\|in 1 s' "$scratch/err" || fail "$way: a member alone says: $(<"$scratch/err")"
    rm "$scratch/err"
done
echo ok
