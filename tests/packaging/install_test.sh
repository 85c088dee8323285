#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# cmake --install into a stage: everything is there, systemd accepts the units, and the example configurations
# name every option of their daemon with its default. Links in the documents lead somewhere.

set -euo pipefail

command -v systemd-analyze >/dev/null || { echo "no systemd-analyze here: run tools/install-deps" >&2 && exit 1; }
stage=$(mktemp -d /tmp/ask-install-test.XXXXXX)
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
readonly stage root
trap 'rm -rf "$stage"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

DESTDIR=$stage cmake --install "$ASK_BUILD_DIR" --prefix /usr >"$stage/log" || fail "cmake --install: $(cat "$stage/log")"

for program in ask-switchd ask-agentd ask-controld ask-relayd ask-send ask-recv ask-allreduce askctl; do
    [[ -x $stage/usr/bin/$program ]] || fail "usr/bin/$program is not installed"
    "$stage/usr/bin/$program" --help >/dev/null || fail "$program --help fails once installed"
done

"$root/tests/docs/check_links" "$stage/usr/share/doc/ask" >&2 || fail "installed documents have dead links (above)"

grep -qx 'g ask -' "$stage/usr/lib/sysusers.d/ask.conf" || fail "no group for socket_group is installed"
grep -qx 'u ask-controld .*' "$stage/usr/lib/sysusers.d/ask-controld.conf" || fail "no user for ask-controld is installed"
grep -qx 'socket_group = "ask"' "$stage/etc/ask/agentd.toml.example" || fail "the example does not name the installed group"

units=$stage/usr/lib/systemd/system
for daemon in switchd agentd controld relayd; do
    grep -q "^ExecStart=/usr/bin/ask-$daemon --config /etc/ask/$daemon.toml\( --unload-on-exit\)\?$" "$units/ask-$daemon.service" ||
        fail "ask-$daemon.service does not start what was installed"
    [[ -e $stage/etc/ask/$daemon.toml.example ]] || fail "no etc/ask/$daemon.toml.example"
done
grep -q '^ExecStart=/usr/bin/ask-agentd --config /etc/ask/%i/agentd.toml --socket' "$units/ask-agentd@.service" ||
    fail "ask-agentd@.service does not start what was installed"
[[ -x $stage/usr/lib/ask/ask-net ]] || fail "ask-net@.service has nothing to run"
# The units that every unit depends on come from this system.
cp -a --no-clobber /lib/systemd/system/. "$units/"
# So does what reloads a daemon.
install -D /bin/kill "$stage/bin/kill"
said=$(systemd-analyze verify --man=no --root="$stage" ask-switchd.service ask-agentd.service ask-controld.service ask-relayd.service \
    ask-relayd@relay.service 2>&1) ||
    fail "systemd-analyze verify: $said"
! grep -F ask- <<<"$said" || fail "systemd-analyze verify has complaints (above)"

# options DAEMON: "key default" of every option that the configuration takes, from --help. Help texts may wrap.
options() {
    "$stage/usr/bin/ask-$1" --help | awk '
        function flush() {
            if (key == "" || key ~ /^(help|version|completion|config|check|unload|unload_on_exit)$/) return
            fallback = match(text, /\[[^]]*\]$/) ? substr(text, RSTART + 1, RLENGTH - 2) : ""
            print key, fallback
        }
        match($0, /^ +(-[a-z],)?--[a-z-]+/) {
            next_key = substr($0, RSTART, RLENGTH); sub(/.*--/, "", next_key); gsub(/-/, "_", next_key)
            flush()
            key = next_key; text = ""
        }
        { gsub(/ +$/, ""); text = text " " $0 }
        END { flush() }' | sed 's/ $//' | sort
}

# The example's "key default"; keys that must be set have no default, and [hosts] is a table.
documented() {
    sed -nE 's/^# ([a-z_]+) = "?([^"]*)"?$/\1 \2/p; s/^([a-z_]+) = .*/\1 (set)/p; s/^\[([a-z]+)\]$/\1 (set)/p' "$1" |
        grep -v '^receiver ' | sed 's/ $//' | sort
}

for daemon in switchd agentd controld relayd; do
    example=$stage/etc/ask/$daemon.toml.example
    documented "$example" >"$stage/documented"
    options "$daemon" >"$stage/options"
    diff <(cut -d' ' -f1 "$stage/documented") <(cut -d' ' -f1 "$stage/options") >&2 ||
        fail "$daemon.toml (<) and the flags of ask-$daemon (>) name different keys"
    # Defaults that the daemon shows must be the example's.
    join "$stage/documented" "$stage/options" | awk 'NF == 3 && $2 != "(set)" && $2 != $3' >"$stage/differ"
    [[ ! -s $stage/differ ]] || fail "$daemon.toml shows other defaults than ask-$daemon --help: $(cat "$stage/differ")"

    # Every line that is commented out must be accepted as it stands; no such interface, bpffs or topology ends the
    # daemon.
    sed -E 's/^# ([a-z_]+ = )/\1/; s#^(bpffs|topology) = .*#\1 = "/nonexistent"#; s|^interface = .*|interface = "nonexistent"|' \
        "$example" >"$stage/$daemon.toml"
    said=$(timeout 20 unshare --map-root-user --net "$stage/usr/bin/ask-$daemon" --config "$stage/$daemon.toml" 2>&1) &&
        fail "ask-$daemon runs with neither interface nor bpffs"
    [[ $said != *--config:* ]] || fail "ask-$daemon does not accept its own example: $said"
    sed -i '1i no_such_key = 1' "$stage/$daemon.toml"
    said=$(timeout 20 unshare --map-root-user --net "$stage/usr/bin/ask-$daemon" --config "$stage/$daemon.toml" 2>&1) &&
        fail "ask-$daemon runs with an unknown key"
    [[ $said == *--config:*no_such_key* ]] || fail "ask-$daemon does not name an unknown key: $said"
done
echo "ok"
