# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A word count over any network of nodes. Needs `on NODE COMMAND...`, which becomes COMMAND in the node's namespace
# with the node's agent as default.

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# make_words DIR N FILE... : the files' words to DIR/words.1..N, as equal parts; what comes out to DIR/reference.
make_words() {
    local -r dir=$1 parts=$2
    shift 2
    # shellcheck disable=SC2018,SC2019  # bytes, whatever the locale: the same for everybody
    cat -- "$@" | LC_ALL=C tr -cs 'A-Za-z' '\n' | LC_ALL=C tr 'A-Z' 'a-z' | sed '/^$/d' >"$dir/words"
    split --number="l/$parts" --numeric-suffixes=1 --suffix-length=1 "$dir/words" "$dir/words."
    LC_ALL=C sort "$dir/words" | LC_ALL=C uniq -c | awk '{ print $2 "\t" $1 }' >"$dir/reference"
}

# start DIR NAME NODE COMMAND... : in the background; its output to DIR/NAME.out and DIR/NAME.err.
declare -A started=()
start() {
    local dir=$1 name=$2 node=$3
    shift 3
    on "$node" "$@" >"$dir/$name.out" 2>"$dir/$name.err" &
    started[$!]=$name
}

# await_all DIR : until everything started has ended, each with success.
await_all() {
    local code pid
    while ((${#started[@]})); do
        code=0
        wait -n -p pid "${!started[@]}" || code=$?
        ((code == 0)) || fail "${started[$pid]} failed (exit code $code): $(<"$1/${started[$pid]}.err")"
        unset "started[$pid]"
    done
}

# For ask-send, besides what a count needs.
SEND_OPTIONS=()

# count_words DIR TASK RECEIVER SENDER... : one part of DIR/words each; a node may be named more than once. The answer is exact, the switch added up
# something; DIR/stats.json has the receiver's figures.
count_words() {
    local -r dir=$1 task=$2 receiver=$3
    local i=0 node
    shift 3
    start "$dir" result "$receiver" ask-recv --task "$task" --senders $# --op count --stats "$dir/stats.json"
    for node; do
        i=$((i + 1))
        start "$dir" "send$i" "$node" ask-send --task "$task" --to "$receiver" --count "${SEND_OPTIONS[@]}" \
            --stats "$dir/send$i.json" "$dir/words.$i"
    done
    await_all "$dir"
    check_words "$dir"
}

# check_words DIR : prints a line about the count that has ended.
check_words() {
    LC_ALL=C sort "$1/result.out" | cmp - "$1/reference" >&2 || fail "the answer differs from sort | uniq -c"
    (($(jq .tuples_switch "$1/stats.json") > 0)) || fail "the switch added up nothing: $(<"$1/stats.json")"
    printf '%s words, %s of %s tuples sent added up on the switch\n' "$(wc -l <"$1/words")" \
        "$(jq .tuples_switch "$1/stats.json")" "$(jq .tuples_sent "$1/stats.json")"
}
