#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# libask as it is installed: a program outside the tree is built with pkg-config's word and with CMake's, finds the library by
# its soname, and sees no symbol but those of ask.h.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
stage=$(mktemp -d /tmp/ask-libask-test.XXXXXX)
readonly root stage
trap 'rm -rf "$stage"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

cmake -DCMAKE_INSTALL_PREFIX="$stage/usr" -P "$ASK_BUILD_DIR/lib/ask/cmake_install.cmake" >"$stage/log" 2>&1 ||
    fail "the library does not install: $(<"$stage/log")"
pc=$(find "$stage/usr" -name ask.pc)
library=$(find "$stage/usr" -name libask.so.0)
[[ -n $pc && -n $library ]] || fail "there is no ask.pc or no libask.so.0: $(find "$stage/usr")"

# shows PROGRAM: without an agent it says who is missing, with the code of what cannot be reached.
shows() {
    local said code=0
    said=$(LD_LIBRARY_PATH=${library%/*} ASK_AGENT=$stage/none "$@" 2>&1) || code=$?
    [[ $code == 6 && $said == *"no agent listens at $stage/none"*unavailable* ]] || fail "$1 ended with $code and said: $said"
}

read -ra flags <<<"$(PKG_CONFIG_PATH=${pc%/*} pkg-config --cflags --libs ask)"
cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$root/examples/libask/sum.c" "${flags[@]}" -o "$stage/sum" || fail "cc and pkg-config"
shows "$stage/sum" g 0 1 h1
readelf -d "$stage/sum" | grep -q 'NEEDED.*\[libask\.so\.0\]' || fail "the program does not ask for libask.so.0"

cmake -S "$root/examples/libask" -B "$stage/build" -DCMAKE_PREFIX_PATH="$stage/usr" >"$stage/log" 2>&1 || fail "CMake: $(<"$stage/log")"
cmake --build "$stage/build" >"$stage/log" 2>&1 || fail "CMake: $(<"$stage/log")"
shows "$stage/build/sum" g 0 1 h1

declared=$(grep -oE '\bask_[a-z_]+\(' "$stage/usr/include/ask.h" | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' | sort -u)
[[ -z $(comm -13 <(echo "$declared") <(echo "$exported")) ]] || fail "exported and not declared: $exported"
[[ $(nm -D --defined-only "$library" | awk '$2 != "A" && $2 != "T"') == '' ]] || fail "other symbols are to be seen"
echo ok
