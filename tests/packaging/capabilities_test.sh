#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The daemons do all of their work with the capabilities that their units leave them, and no others: a lab whose
# daemons run behind setpriv, and a count through it.

set -euo pipefail

((EUID == 0)) || { echo "needs root" >&2 && exit 1; }
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d /tmp/ask-cap-test.XXXXXX)
built=$ASK_BUILD_DIR/bin
export ASK_LAB_DIR=$scratch/labs ASK_BUILD_DIR=$scratch/build
readonly root scratch built name=c$$

cleanup() {
    trap '' INT TERM
    "$root/tools/lab" down --all || true
    rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# wrap DAEMON: a program of its name that runs it with its unit's bounding set. By number, because setpriv may be
# older than the names.
wrap() {
    local unit=$root/packaging/systemd/$1.service.in set=-all capability
    local -a granted
    local -A numbers=([CAP_CHOWN]=0 [CAP_NET_ADMIN]=12 [CAP_NET_RAW]=13 [CAP_IPC_LOCK]=14 [CAP_PERFMON]=38 [CAP_BPF]=39)
    read -ra granted < <(sed -n 's/^CapabilityBoundingSet=//p' "$unit")
    for capability in "${granted[@]}"; do
        [[ -n ${numbers[$capability]-} ]] || fail "$unit: this test does not know $capability"
        set+=",+cap_${numbers[$capability]}"
    done
    printf '#!/bin/sh\nexec setpriv --no-new-privs --bounding-set=%s -- %q "$@"\n' "$set" "$built/$1" >"$ASK_BUILD_DIR/bin/$1"
    chmod +x "$ASK_BUILD_DIR/bin/$1"
}

mkdir -p "$ASK_BUILD_DIR/bin"
wrap ask-switchd
wrap ask-agentd
ln -s "$built"/{askctl,ask-send,ask-recv} "$ASK_BUILD_DIR/bin/"

"$root/tools/lab" up --name "$name" --hosts 2
for pid in $("$root/tools/lab" status --name "$name" --json | jq '.nodes[].pid'); do
    # CAP_SYS_ADMIN is bit 21; nothing above says so if the wrapper had no effect.
    effective=$(awk '/^CapEff:/ { print $2 }' "/proc/$pid/status")
    ((0x$effective & (1 << 21))) && fail "process $pid runs with all of root's capabilities ($effective)"
done
"$root/tools/lab" exec --name "$name" h2 -- ask-recv --task caps --senders 1 --op count --require-region \
    >"$scratch/result" 2>"$scratch/recv.err" &
receiver=$!
printf 'a\nb\na\n' | "$root/tools/lab" exec --name "$name" h1 -- ask-send --task caps --to h2 --count ||
    fail "ask-send failed; ask-recv said: $(cat "$scratch/recv.err")"
wait "$receiver" || fail "ask-recv failed: $(cat "$scratch/recv.err")"
[[ $(sort "$scratch/result") == $'a\t2\nb\t1' ]] || fail "wrong result: $(cat "$scratch/result")"
# A successor with the same rights adopts what is pinned.
"$root/tools/lab" kill --name "$name" sw -KILL
"$root/tools/lab" restart --name "$name" sw || fail "a restarted ask-switchd does not come up"
"$root/tools/lab" restart --name "$name" h1 || fail "a restarted ask-agentd does not come up"
echo "ok"
