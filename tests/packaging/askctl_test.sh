#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every command of askctl, as --help lists them, has --json, and --watch if it shows how something is.

set -euo pipefail

readonly askctl=$ASK_BUILD_DIR/bin/askctl

# These do something, once, and have nothing to show again.
declare -rA once=(
    ["task cancel"]="ends a task"
    ["task finish"]="ends a stream"
    ["ca make"]="makes a CA"
    ["ca issue"]="makes certificates"
)

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# commands_of WORD... : the commands below this one.
commands_of() {
    "$askctl" "$@" --help | awk '/^Subcommands:/ { on = 1; next } on && /^  [a-z]/ { print $1 }'
}

# has FLAG WORD...
has() {
    local help
    # Not through a pipe, which grep leaves before all is written.
    help=$("$askctl" "${@:2}" --help)
    grep -qE -- "^ +$1( |\$)" <<<"$help"
}

count=0
walk() {
    local each
    local -a below
    mapfile -t below < <(commands_of "$@")
    for each in "${below[@]}"; do walk "$@" "$each"; done
    ((${#below[@]} == 0)) || return 0
    count=$((count + 1))
    has --json "$@" || fail "askctl $*: no --json"
    if [[ ${once["$*"]-} ]]; then
        ! has --watch "$@" || fail "askctl $* ${once["$*"]}, and has --watch"
    else
        has --watch "$@" || fail "askctl $*: no --watch"
    fi
}
walk
((count >= 19)) || fail "only $count commands are found"
echo "ok $count commands"

# What makes something says in JSON what it has made.
scratch=$(mktemp -d /tmp/ask-askctl-test.XXXXXX)
readonly scratch
trap 'rm -rf --one-file-system "$scratch"' EXIT
"$askctl" ca make "$scratch/ca" --json | jq -e --arg dir "$scratch/ca" '.certificate == $dir + "/ca.pem" and .key == $dir + "/ca.key"' >/dev/null ||
    fail "ca make --json"
"$askctl" ca issue "$scratch/ca" h1 h2=198.18.2.2 --json |
    jq -e --arg dir "$scratch/ca" 'map(.name) == ["h1", "h2"] and .[1].directory == $dir + "/h2"' >/dev/null || fail "ca issue --json"
[[ -s $scratch/ca/h2/certificate.pem ]] || fail "no certificate"
code=0
"$askctl" relays --off s1 --watch 1 2>"$scratch/said" || code=$?
((code == 2)) || fail "a switch is taken out again and again: $code, $(<"$scratch/said")"
echo "ok JSON of what is made"
