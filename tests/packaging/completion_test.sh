#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# completion_test.sh bash|zsh|fish : what the shell offers for lines of ours, by the script that --completion prints; and that
# it offers every flag that --help has.

set -euo pipefail

readonly shell=$1 bin=$ASK_BUILD_DIR/bin
readonly programs=(ask-send ask-recv ask-allreduce ask-plan askctl ask-switchd ask-agentd ask-controld ask-relayd)
scratch=$(mktemp -d /tmp/ask-completion-test.XXXXXX)
readonly scratch
trap 'rm -rf --one-file-system "$scratch"' EXIT
cd "$scratch"
touch input.tsv

fail() {
    printf 'FAIL line %s: %s\n' "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

for program in "${programs[@]}"; do "$bin/$program" --completion "$shell" >"$program.$shell" || fail "$program --completion $shell"; done
code=0
"$bin/askctl" --completion csh 2>"$scratch/said" || code=$?
[[ $code == 2 && $(<"$scratch/said") == *'no shell "csh" is known'* ]] || fail "csh: $code, $(<"$scratch/said")"

# offers LINE : what completes its last word, which may be empty, one a line.
offers_bash() {
    # shellcheck disable=SC2016  # the inner shell's
    bash --norc --noprofile -c '
        source "$1.bash"
        read -ra COMP_WORDS <<<"$2"
        [[ $2 != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        "_$1"
        printf "%s\n" "${COMPREPLY[@]}"' complete "${1%% *}" "$1"
}
# The function as it is, with compadd and what calls it noting what they are given.
offers_zsh() {
    # shellcheck disable=SC2016  # zsh's
    zsh -f -c '
        compdef() { }
        _files() { print -l *(N) }
        compadd() { shift; print -l -- "$@" }
        _describe() {
            [[ $1 != -o ]] || shift
            local name; for name in ${(P)2}; do print -r -- ${name%%:*}; done
        }
        words=(${=2}); [[ $2 != *" " ]] || words+=("")
        CURRENT=$#words
        source ./$1.zsh
        _$1' complete "${1%% *}" "$1" | grep -- "^${1##* }" || true # none is an answer
}
offers_fish() {
    # shellcheck disable=SC2016  # fish's
    fish --no-config -c 'source ./$argv[1].fish; complete -C $argv[2]' -- "${1%% *}" "$1" | cut -f 1
}

# offered LINE WORD... : exactly these, in any order.
offered() {
    local -r line=$1
    local is want
    shift
    is=$("offers_$shell" "$line" | sort -u)
    want=$(printf '%s\n' "$@" | sort -u)
    [[ $is == "$want" ]] || fail "'$line' is offered: ${is//$'\n'/ }; not: ${want//$'\n'/ }"
}

offered 'askctl st' status streams
offered 'askctl task e' explain
offered 'askctl task explain --j' --json
offered 'askctl ca issue --op' --operator
offered 'askctl idle --re' --relay --restart
offered 'ask-send --merge-w' --merge-window
offered 'ask-send --stats in' input.tsv
offered 'ask-agentd --bind-mode z' zerocopy
echo "ok words, values and files in $shell"

for program in "${programs[@]}"; do
    # Of the program itself: subcommands have help of their own.
    missing=$(comm -13 <("offers_$shell" "$program --" | sort -u) \
        <("$bin/$program" --help | grep -oE '^  (-[a-z],)?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u))
    [[ -z $missing ]] || fail "$program: never offered: $missing"
done
echo "ok every flag in $shell"
