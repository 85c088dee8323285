# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What tests of streams share, on top of lib.sh: senders whose lines are all different, a receiver on h4 into a directory of the
# stream's name, and what of it is there. Files of a stream are $scratch/NAME and $scratch/NAME.*.
#
# scratch, spawned and code are lib.sh's; receiver and sender are for who calls.
# shellcheck disable=SC2154,SC2034

# some_lines SENDER FIRST LAST: at once.
some_lines() {
    seq -f "s$1-%06.0f" "$2" "$3" | sed $'s/$/\t1/'
}

# lines_of SENDER BLOCKS: a hundred a second.
lines_of() {
    local block
    for ((block = 0; block < $2; block++)); do
        some_lines "$1" $((block * 10 + 1)) $((block * 10 + 10))
        sleep 0.1 # the pace of a source
    done
}

# lines_until_enough NAME SENDER: as many a second, until the test says `enough NAME`; some more come after that. How many it
# were is in $scratch/NAME.lines.SENDER then. For tests that wait for what takes longer on a busy machine: a source that ends by
# the clock may have ended before.
lines_until_enough() {
    local blocks=0 last=
    until [[ -n $last ]]; do
        [[ ! -e $scratch/$1.enough ]] || last=1
        some_lines "$2" $((blocks * 10 + 1)) $((blocks * 10 + 10))
        blocks=$((blocks + 1))
        sleep 0.1 # the pace of a source
    done
    printf '%s\n' $((blocks * 10)) >"$scratch/$1.lines.$2"
}

enough() {
    : >"$scratch/$1.enough"
}

# all_of NAME SENDER: its lines, as `exact` wants them, once its ask-send has ended.
all_of() {
    printf '%s=1-%s' "$2" "$(<"$scratch/$1.lines.$2")"
}

# open_stream NAME FLAGS... : windows of a second; sets $receiver.
open_stream() {
    local -r id=$1
    shift
    spawn "$scratch/$id.recv" h4 ask-recv --task "$id" --every 1s --out "$scratch/$id" "$@" </dev/null
    receiver=$spawned
}

# follow NAME HOST LOG FLAGS... : an ask-send whose input is the caller's, unless FLAGS name a file; sets $sender.
follow() {
    local -r id=$1 host=$2 log=$scratch/$1.$3
    shift 3
    spawn "$log" "$host" ask-send --follow --task "$id" --to h4 "$@"
    sender=$spawned
}

# ends PID CODE LOG [PATTERN]: as it should, and says so; LOG is NAME.WHO.
ends() {
    exit_of "$1"
    ((code == $2)) || fail "$3 ended with $code, not $2: $(cat "$scratch/$3.err")"
    [[ -z ${4-} ]] || grep -qE "$4" "$scratch/$3.err" || fail "$3 does not say '$4': $(cat "$scratch/$3.err")"
}

# refused CODE PATTERN NODE COMMAND... : at once, in these words.
refused() {
    local -r expected=$1 pattern=$2
    local code=0 said
    shift 2
    said=$(on "$@" </dev/null 2>&1) || code=$?
    ((code == expected)) || fail "$* ended with $code and says $said"
    grep -qE "$pattern" <<<"$said" || fail "$* says $said"
}

# rows NAME [STATE]: of windows.tsv.
rows() {
    [[ ! -e $scratch/$1/windows.tsv ]] || awk -F'\t' -v state="${2-}" '!/^#/ && (state == "" || $4 == state)' "$scratch/$1/windows.tsv"
}

# committed NAME N [STATE]: so many windows have their line.
committed() {
    (($(rows "$1" "${3-}" | wc -l) >= $2))
}

# tables NAME: all of their lines.
tables() {
    find -H "$scratch/$1" -name '2*.tsv' -exec cat {} +
}

# has_line NAME KEY: it is in a table. All are read: whoever has seen enough and goes ends `cat` by a signal.
has_line() {
    (($(tables "$1" | grep -c "^$2"$'\t') > 0))
}

# exact NAME SENDER=FROM-TO... : these lines of each sender, each once, and windows that follow upon each other.
exact() {
    local -r id=$1
    local each
    shift
    [[ -z $(tables "$id" | cut -f1 | sort | uniq -d) ]] || fail "$id has lines twice: $(tables "$id" | cut -f1 | sort | uniq -d | head -n 3)"
    for each; do
        local sender=${each%%=*} range=${each#*=}
        cmp -s <(some_lines "$sender" "${range%-*}" "${range#*-}") <(tables "$id" | grep "^s$sender-" | LC_ALL=C sort) ||
            fail "$id has $(tables "$id" | grep -c "^s$sender-") lines of sender $sender, not exactly $range"
    done
    rows "$id" | awk -F'\t' 'before != "" && $2 != before { print $0 ": begins, where the one before ends, " before; exit 1 } { before = $3 }' \
        >"$scratch/$id.wrong" || fail "$id: $(cat "$scratch/$id.wrong")"
}

# log_is_read NAME LOG: all of the file is in windows that its sender has left.
log_is_read() {
    jq -e --argjson size "$(stat -c %s "$2")" --argjson inode "$(stat -c %i "$2")" \
        '.place.offset == $size and .place.inode == $inode' "$scratch/$1.state" >/dev/null 2>&1
}
