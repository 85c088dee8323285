#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pages of metrics of the daemons that no lab of dashboard_test.sh has, ask-controld and ask-relayd, are as promtool would have them.

set -euo pipefail

if [[ ${1-} != inside ]]; then
    exec unshare --net --pid --fork --kill-child "$0" inside
fi
scratch=$(mktemp -d /tmp/ask-pages-test.XXXXXX)
readonly scratch bin=$ASK_BUILD_DIR/bin
trap 'rm -rf --one-file-system "$scratch"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# page PORT : once somebody answers there.
page() {
    local -r until=$((SECONDS + 20))
    # shellcheck disable=SC2016 # the inner shell's
    until timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3' page "$1" 2>/dev/null; do
        ((SECONDS < until)) || fail "nobody answers at $1: $(cat "$scratch"/*.log)"
        sleep 0.1 # between two looks
    done | tr -d '\r' | sed '1,/^$/d'
}

ip link set lo up
jq -n '{switch: [{name: "sw", relay: "127.0.0.1:4793"}],
    host: [{name: "h1", switch: "sw", address: "198.18.1.2", load: 1}, {name: "h2", switch: "sw", address: "198.18.2.2"}]}' >"$scratch/network.json"
"$bin/ask-controld" --config /dev/null --topology "$scratch/network.json" --plain-text loopback --listen 127.0.0.1:4794 \
    --socket "$scratch/controller.sock" --metrics 127.0.0.1:9794 2>"$scratch/controller.log" &
"$bin/ask-relayd" --config /dev/null --name r1 --plain-text loopback --listen 127.0.0.1:4793 --socket "$scratch/relay.sock" \
    --metrics 127.0.0.1:9793 2>"$scratch/relay.log" &
for daemon in controller:9794 relay:9793; do
    page "${daemon#*:}" >"$scratch/page"
    grep -q "^ask_${daemon%:*}_" "$scratch/page" || fail "no page of the ${daemon%:*}: $(<"$scratch/page")"
    promtool check metrics <"$scratch/page" >"$scratch/said" 2>&1 || fail "promtool, of the ${daemon%:*}: $(<"$scratch/said")"
    echo "ok promtool finds no fault with the page of the ${daemon%:*}"
done
