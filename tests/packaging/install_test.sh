#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# cmake --install into a stage: everything is there, systemd accepts the units, and the example configurations
# name every option of their daemon with its default.

set -euo pipefail

command -v systemd-analyze >/dev/null || { echo "no systemd-analyze here: run tools/install-deps" >&2 && exit 1; }
stage=$(mktemp -d /tmp/ask-install-test.XXXXXX)
readonly stage
trap 'rm -rf "$stage"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

DESTDIR=$stage cmake --install "$ASK_BUILD_DIR" --prefix /usr >"$stage/log" || fail "cmake --install: $(cat "$stage/log")"

for program in ask-switchd ask-agentd ask-send ask-recv askctl; do
    [[ -x $stage/usr/bin/$program ]] || fail "usr/bin/$program is not installed"
    "$stage/usr/bin/$program" --help >/dev/null || fail "$program --help fails once installed"
done

units=$stage/usr/lib/systemd/system
for daemon in switchd agentd; do
    grep -q "^ExecStart=/usr/bin/ask-$daemon --config /etc/ask/$daemon.toml$" "$units/ask-$daemon.service" ||
        fail "ask-$daemon.service does not start what was installed"
    [[ -e $stage/etc/ask/$daemon.toml.example ]] || fail "no etc/ask/$daemon.toml.example"
done
# The units that every unit depends on come from this system.
cp -a --no-clobber /lib/systemd/system/. "$units/"
said=$(systemd-analyze verify --man=no --root="$stage" ask-switchd.service ask-agentd.service 2>&1) ||
    fail "systemd-analyze verify: $said"
! grep -F ask- <<<"$said" || fail "systemd-analyze verify has complaints (above)"

# option_keys DAEMON: the configuration keys among its flags; what only makes sense as a flag is left out.
option_keys() {
    "$stage/usr/bin/ask-$1" --help | grep -oE '^ +(-[a-z],)?--[a-z][a-z-]*' | sed -E 's/.*--//; s/-/_/g' |
        grep -vxE 'help|version|config|unload|unload_on_exit' | sort -u
}

for daemon in switchd agentd; do
    example=$stage/etc/ask/$daemon.toml.example
    keys=$(grep -oE '^(# )?[a-z_]+ = |^\[[a-z]+\]' "$example" | tr -d '#[]= ' | grep -v '^receiver$' | sort -u)
    expected=$(option_keys "$daemon")
    [[ $keys == "$expected" ]] || fail "$daemon.toml and the flags of ask-$daemon differ:
$(diff <(printf '%s\n' "$keys") <(printf '%s\n' "$expected"))"
    # Every line that is commented out must be accepted as it stands. An absent bpffs ends the daemon right after.
    sed -E 's/^# ([a-z_]+ = )/\1/; s|^bpffs = .*|bpffs = "/nonexistent"|' "$example" >"$stage/$daemon.toml"
    said=$(timeout 20 unshare --map-root-user --net "$stage/usr/bin/ask-$daemon" --config "$stage/$daemon.toml" 2>&1) &&
        fail "ask-$daemon runs without a bpffs"
    [[ $said == */nonexistent* ]] || fail "ask-$daemon does not accept its own example: $said"
done
echo "ok"
