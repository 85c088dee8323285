# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What all of tools/ shares: where things are, how to complain, how to wait. Source it after `set -euo pipefail`.

ASK_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
readonly ASK_ROOT

# The program's name in messages; `${0##*/}` unless the script sets another.
: "${ASK_TOOL:=${0##*/}}"

die() {
    printf '%s: %s\n' "$ASK_TOOL" "$*" >&2
    exit 1
}

usage_error() {
    printf '%s: %s (--help shows how)\n' "$ASK_TOOL" "$*" >&2
    exit 2
}

note() {
    printf '%s: %s\n' "$ASK_TOOL" "$*" >&2
}

require_root() {
    ((EUID == 0)) || die "needs root for $1: run it as root (sudo $0 ...)"
}

require_commands() {
    local command
    for command; do
        command -v "$command" >/dev/null || die "no '$command' here: run tools/install-deps"
    done
}

# The build directory: ASK_BUILD_DIR, or that of the release preset.
build_dir() {
    printf '%s\n' "${ASK_BUILD_DIR:-$ASK_ROOT/build/release}"
}

# require_binaries BIN_DIR NAME...
require_binaries() {
    local dir=$1 name
    shift
    for name; do
        [[ -x $dir/$name ]] || die "no $dir/$name: build it with tools/build (or name another build with ASK_BUILD_DIR)"
    done
}

# Milliseconds of a clock that never steps back.
now_ms() {
    local up rest
    read -r up rest </proc/uptime
    printf '%s\n' "$((10#${up%.*} * 1000 + 10#${up#*.} * 10))"
}

# wait_until MILLISECONDS COMMAND... : polls the command until it succeeds; 1 when the time is over.
wait_until() {
    local -r deadline=$(($(now_ms) + $1))
    shift
    until "$@"; do
        (($(now_ms) < deadline)) || return 1
        sleep 0.05
    done
}

# interruptible COMMAND... : runs a function of this script, as its last act, in a child that is told to end by SIGTERM,
# whichever of SIGINT, SIGTERM and SIGHUP came; a child that does not finish because of that makes this script exit with
# 128 and the signal's number. For bash (5.2) does not always run its trap when a SIGINT arrives while it starts or ends
# commands of its own: a loop of $(true) goes on after 2 to 4 of 100. A shell that only waits has no commands to start.
interruptible() {
    local caught=0 signals=0 waited=-1 code=0 pid=
    trap 'caught=130; signals=$((signals + 1)); kill -TERM $pid 2>/dev/null || true' INT
    trap 'caught=143; signals=$((signals + 1)); kill -TERM $pid 2>/dev/null || true' TERM
    trap 'caught=129; signals=$((signals + 1)); kill -TERM $pid 2>/dev/null || true' HUP
    "$@" <&0 &
    pid=$!
    # One that came before there was a pid has told nobody.
    ((!caught)) || kill -TERM "$pid" 2>/dev/null || true
    # A signal may have ended a `wait` early; of what has ended, bash remembers how.
    while ((waited != signals)); do
        waited=$signals
        wait "$pid" && code=0 || code=$?
    done
    ((!caught || code == 0)) || exit "$caught"
    exit "$code"
}

# Whether the script's own process is gone, and this is a child of `interruptible` that nobody waits for.
orphaned() {
    [[ ! -e /proc/$$ ]]
}
