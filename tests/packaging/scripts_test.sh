#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What maintainers' scripts of the packages do in an upgrade, beside commands that only note what they are asked: which
# daemon is asked what, which is restarted, left as it is or replaced, and which upgrade is refused.

set -euo pipefail

[[ $(id -u) == 0 ]] || { echo "scripts_test.sh needs root, for a /run of its own" >&2 && exit 1; }
if [[ ${1-} != inside ]]; then
    exec unshare --mount -- "$0" inside
fi
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d /tmp/ask-scripts-test.XXXXXX)
readonly root scratch bin=$scratch/bin
trap 'rm -rf --one-file-system "$scratch"' EXIT
mount -t tmpfs run /run
mkdir -p /run/systemd/system "$bin"

fail() {
    printf 'FAIL line %s: %s\n' "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

# fake COMMAND: it notes its arguments, and says and ends as the files of its name have it.
fake() {
    cat >"$bin/$1" <<SCRIPT
#!/bin/bash
printf '%s %s\n' $1 "\$*" >>'$scratch/asked'
$2
SCRIPT
    chmod +x "$bin/$1"
}
fake systemctl "[[ \$1 != list-units ]] || cat '$scratch/units'"
fake deb-systemd-invoke :
fake systemd-sysusers :
fake ask-switchd "[[ ! -e '$scratch/other-maps' ]] || { echo 'pins of another version' && exit 8; }"
# A daemon is idle if it is, or if it speaks the packets that are asked for, or if what it has survives a restart.
fake askctl "
source '$scratch/daemon'
[[ -n \$wire ]] || { echo 'askctl: nobody answers' && exit 6; }
case \"\$*\" in *--json*) printf '[\n  {\n    \"wire_version\": %s,\n    \"whole\": true\n  }\n]\n' \"\$wire\" ;; *) echo \"said: \$stakes\" ;; esac
case \"\$*\" in
    *\"--wire-version \$wire\"*) exit 0 ;;
    *--restart*) [[ \$stakes != survives ]] || exit 0 ;;
esac
[[ -z \$stakes ]] || exit 21"

# daemon WIRE STAKES: what runs. No WIRE: nobody answers.
daemon() {
    printf 'wire=%q stakes=%q\n' "$1" "$2" >"$scratch/daemon"
}

# scripts PACKAGE DAEMON [OTHER UNITS]
scripts() {
    cmake -DFOLDER="$scratch/$1" -DPACKAGE="$1" -DDAEMON="$2" -DMORE_UNITS="${3-}" -P "$root/packaging/scripts.cmake" >/dev/null
    shellcheck -s sh "$scratch/$1"/{preinst,postinst,prerm,postrm} || fail "shellcheck: $1"
}

# runs PACKAGE SCRIPT ARGUMENT... : ends with $code; $scratch/said and $scratch/asked have what was said and asked for.
runs() {
    local -r script=$scratch/$1/$2
    shift 2
    : >"$scratch/asked"
    code=0
    PATH=$bin:$PATH "$script" "$@" >"$scratch/said" 2>&1 || code=$?
}

asked() {
    grep -qxF -- "$1" "$scratch/asked" || fail "nobody asked '$1', but: $(<"$scratch/asked")"
}

nothing_done() {
    ! grep -qE '^deb-systemd-invoke' "$scratch/asked" || fail "this was done: $(<"$scratch/asked")"
}

scripts ask-agent ask-agentd 'ask-agentd@*.service'
scripts ask-switch ask-switchd
scripts ask-relay ask-relayd 'ask-relayd@*.service'
scripts ask-controller ask-controld
ours=$(sed -n 's/^wire_version=//p' "$scratch/ask-agent/preinst")
readonly ours other=$((ours - 1))
printf 'ask-agentd.service loaded active running x\nask-agentd@relay.service loaded active running x\n' >"$scratch/units"

# Before anything is unpacked.
daemon "$other" tasks
runs ask-agent preinst upgrade 0.1.0 0.1.1
((code == 1)) || fail "a busy daemon of another wire version does not stop an upgrade: $(<"$scratch/said")"
grep -qF "this release speaks packets of another version ($(printf 0x%x "$ours")) than ask-agentd.service" "$scratch/said" || fail "it says $(<"$scratch/said")"
grep -qF 'said: tasks' "$scratch/said" || fail "it does not say what is in the way: $(<"$scratch/said")"
for state in "$ours tasks" "$other " " "; do
    daemon "${state% *}" "${state#* }"
    runs ask-agent preinst upgrade 0.1.0 0.1.1
    ((code == 0)) || fail "'$state' stops an upgrade: $(<"$scratch/said")"
done
asked "askctl --agent /run/ask/agent.sock idle --wire-version $ours"
asked "askctl --agent /run/ask-relay/agent.sock idle --wire-version $ours"
runs ask-agent preinst install
[[ ! -s $scratch/asked ]] || fail "a fresh install asks: $(<"$scratch/asked")"
echo "ok preinst"

# Afterwards.
daemon "$ours" ''
runs ask-agent postinst configure 0.1.0
asked "deb-systemd-invoke try-restart ask-agentd.service"
asked "deb-systemd-invoke try-restart ask-agentd@relay.service"
daemon "$ours" tasks
runs ask-agent postinst configure 0.1.0
((code == 0)) || fail "postinst failed: $(<"$scratch/said")"
nothing_done
grep -qF 'ask-agentd.service goes on as it was before the upgrade' "$scratch/said" || fail "it says $(<"$scratch/said")"
grep -qF 'systemctl restart ask-agentd@relay.service' "$scratch/said" || fail "it says $(<"$scratch/said")"
daemon "" ""
runs ask-agent postinst configure 0.1.0
nothing_done
grep -qF 'nobody answers' "$scratch/said" || fail "it says $(<"$scratch/said")"
runs ask-agent postinst configure
nothing_done
echo "ok postinst"

# What a switch has survives, but not another wire version: then it is stopped, which leaves nothing pinned.
echo 'ask-switchd.service loaded active running x' >"$scratch/units"
daemon "$ours" survives
runs ask-switch postinst configure 0.1.0
asked "askctl --switch unix:/run/ask-switchd/control.sock idle --restart"
asked "deb-systemd-invoke try-restart ask-switchd.service"
daemon "$other" ''
runs ask-switch postinst configure 0.1.0
asked "deb-systemd-invoke stop ask-switchd.service"
asked "deb-systemd-invoke start ask-switchd.service"
daemon "$other" survives
runs ask-switch postinst configure 0.1.0
nothing_done
# Nor another layout of what is pinned.
touch "$scratch/other-maps"
daemon "$ours" survives
runs ask-switch postinst configure 0.1.0
nothing_done
grep -qF 'pins of another version' "$scratch/said" || fail "it says $(<"$scratch/said")"
daemon "$ours" ''
runs ask-switch postinst configure 0.1.0
asked "deb-systemd-invoke stop ask-switchd.service"
rm "$scratch/other-maps"
echo "ok a switch"

printf 'ask-relayd.service a\nask-relayd@edge.service a\n' >"$scratch/units"
daemon "$ours" ''
runs ask-relay postinst configure 0.1.0
asked "askctl idle --relay unix:/run/ask-relayd/control.sock --restart"
asked "askctl idle --relay unix:/run/ask-relayd-edge/control.sock --restart"
echo 'ask-controld.service a' >"$scratch/units"
runs ask-controller postinst configure 0.1.0
asked "askctl --controller unix:/run/ask-controld/control.sock idle --restart"
echo "ok a relay, a controller"
