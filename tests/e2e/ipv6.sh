# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What tests of IPv6 share, on top of lib.sh.

# refused TEXT COMMAND... : on h1, by name and at once: to begin takes a busy machine a second or two, and deadlines are 20.
refused() {
    local -r want=$1 begin=${EPOCHREALTIME/./}
    local took said
    shift
    if said=$(on h1 "$@" 2>&1 </dev/null); then fail "$* was not refused: $said"; fi
    took=$(((${EPOCHREALTIME/./} - begin) / 1000))
    [[ $said =~ $want ]] || fail "$* said '$said', not '$want'"
    ((took < 6000 * ${ASK_TEST_PATIENCE:-1})) || fail "$* took $took ms to be refused"
}
