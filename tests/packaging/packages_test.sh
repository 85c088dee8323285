#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Debian packages of this tree: lintian accepts them, and in a clean Debian root they install with all that they need, run,
# are replaced by a newer version, and leave nothing when they are purged; those of the last tag that speaks packets of this
# tree's version are replaced by this tree's. packages_test.sh mpi: those for MPI programs, too.

set -euo pipefail

[[ $(id -u) == 0 ]] || { echo "packages_test.sh needs root, to make a root and to work in it" >&2 && exit 1; }
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d /tmp/ask-packages-test.XXXXXX)
readonly root scratch debian=$scratch/debian
names=(ask-switch ask-agent ask-controller ask-relay ask-tools libask0 libask-dev python3-ask)
with=()
if [[ ${1-} == mpi ]]; then
    names+=(libask-pmpi-mpich libask-pmpi-openmpi)
    with=(--with mpi)
fi
readonly names with before=0.0.1
cleanup() {
    local at
    for at in dev proc; do ! mountpoint -q "$debian/$at" || umount -R "$debian/$at"; done
    rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

pass() {
    printf 'ok %s (%ss)\n' "$*" "$SECONDS"
}

inside() {
    chroot "$debian" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

# packages VERSION [OPTION...] : into $scratch/VERSION.
packages() {
    "$root/tools/package" "${with[@]}" --version "$1" --out "$scratch/$1" "${@:2}" >"$scratch/log" 2>&1 || fail "tools/package: $(cat "$scratch/log")"
}

# Whatever number it has, an older one here. Sets $tagged.
packages_of_last_tag() {
    local code=0
    (packages "$before" --last-tag) 2>"$scratch/why" || code=$?
    tagged=$(grep -oE 'packages of v[^ ]+' "$scratch/log" || true)
    if ((code != 0)); then
        grep -q 'no tag v' "$scratch/log" || fail "$(cat "$scratch/why")"
        echo "left out: an upgrade from the last tag: $(<"$scratch/log")"
    fi
}

# What is in the root, but for what packages do not bring.
files() {
    (cd "$debian" && find . -xdev -not -path './var/*' -not -path './[0-9]*' -not -path './proc/*' -not -path './dev/*' \
        -not -path './tmp/*' -not -name ld.so.cache -not -name '*.pyc' -not -name __pycache__ | sort)
}

# Names of what the packages want of Debian's, by comma.
wanted() {
    local deb
    for deb in "$scratch"/0.1.0/*.deb; do dpkg-deb -f "$deb" Depends; done | tr ',' '\n' | sed -E 's/\(.*//; s/ //g' |
        grep -vxE '|libask0|ask-agent|ask-tools' | sort -u | paste -sd ,
}

# With all that is wanted of Debian's, and nothing else, so that what remains afterwards is theirs.
make_root() {
    mmdebstrap --quiet --variant=minbase --include="$(wanted)" bookworm "$debian" >"$scratch/log" 2>&1 ||
        fail "mmdebstrap: $(tail -n 20 "$scratch/log")"
    mount -t proc proc "$debian/proc"
    mv "$scratch/0.1.0" "$scratch/0.1.1" "$debian/"
    [[ ! $tagged ]] || mv "$scratch/$before" "$debian/"
    pass "a root of Debian's"
}

accepted() {
    lintian --fail-on error,warning --allow-root "$debian"/0.1.0/*.deb >"$scratch/log" 2>&1 || fail "lintian: $(cat "$scratch/log")"
    pass "lintian"
}

# install VERSION
install() {
    local -a debs
    mapfile -t debs < <(cd "$debian" && printf '/%s\n' "$1"/*.deb)
    ((${#debs[@]} == ${#names[@]})) || fail "not ${names[*]}, but ${debs[*]}"
    inside dpkg --install "${debs[@]}" >"$scratch/log" 2>&1 || fail "dpkg --install: $(tail -n 30 "$scratch/log")"
}

installs() {
    install 0.1.0
    local program
    for program in ask-send ask-recv ask-allreduce ask-plan askctl ask-switchd ask-agentd ask-controld ask-relayd; do
        inside "$program" --version >"$scratch/log" 2>&1 || fail "$program: $(cat "$scratch/log")"
        [[ -n $(find "$debian/usr/share/man" -name "$program.*.gz" -size +200c) ]] || fail "no man page of $program"
    done
    inside python3 -c 'import ask' || fail "python3 does not find ask"
    local library
    for library in "$debian"/usr/lib/*/ask/*/libask_pmpi.so; do
        [[ ! -e $library ]] || ! inside ldd "${library#"$debian"}" | grep 'not found' >&2 || fail "$library lacks libraries (above)"
    done
    grep -q '^ask:' "$debian/etc/group" || fail "no group ask"
    grep -q '^ask-controld:' "$debian/etc/passwd" || fail "no user ask-controld"
    grep -qE '^ask:.*ask-relayd' "$debian/etc/group" || fail "ask-relayd is not in the group ask"
    pass "installed, and runs"
}

# upgraded VERSION : configuration stays, whatever comes.
upgraded() {
    echo '# mine' >"$debian/etc/ask/agentd.toml"
    install "$1"
    # shellcheck disable=SC2016 # dpkg-query's
    [[ $(inside dpkg-query -W -f '${Version}\n' "${names[@]}" | sort -u) == "$1" ]] ||
        fail "not all are of $1"
    [[ $(<"$debian/etc/ask/agentd.toml") == '# mine' ]] || fail "the configuration was changed"
    rm "$debian/etc/ask/agentd.toml"
    pass "upgraded to $1"
}

# Of a release that had other packages, those that it had.
installs_tagged() {
    local -a debs
    mapfile -t debs < <(cd "$debian" && printf '/%s\n' "$before"/*.deb)
    inside dpkg --install "${debs[@]}" >"$scratch/log" 2>&1 || fail "dpkg --install of the last tag's: $(tail -n 30 "$scratch/log")"
    inside ask-send --version >/dev/null || fail "the last tag's ask-send does not run"
    pass "installed: $tagged"
}

leaves_nothing() {
    inside dpkg --purge "${names[@]}" >"$scratch/log" 2>&1 ||
        fail "dpkg --purge: $(tail -n 30 "$scratch/log")"
    ! files | grep -E '/(lib)?ask[^/]*(/|$)' | grep -vE '/(passwd|askpass|ask-password)|systemd-(ask|tty-ask)|/systemd/ask-password' ||
        fail "left behind (above)"
    pass "purged: nothing is left"
}

packages 0.1.1
packages 0.1.0
packages_of_last_tag
make_root
accepted
installs
upgraded 0.1.1
leaves_nothing
if [[ $tagged ]]; then
    installs_tagged
    upgraded 0.1.0
    leaves_nothing
fi
