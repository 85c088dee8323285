# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Which files are ours to format and to check. Needs common.sh.

readonly SOURCE_DIRS=(lib bpf loader agent relay controller tools vm python examples tests bench)

# sources PATTERN... : files under the source folders with such a name, sorted, relative to the root.
sources() {
    local -a dirs=() names=()
    local item
    for item in "${SOURCE_DIRS[@]}"; do
        [[ ! -d $ASK_ROOT/$item ]] || dirs+=("$item")
    done
    for item; do names+=(-o -name "$item"); done
    (cd "$ASK_ROOT" && find "${dirs[@]}" -type f \( "${names[@]:1}" \) | LC_ALL=C sort)
}

# Shell scripts, by their first line: most have no suffix.
shell_sources() {
    (cd "$ASK_ROOT" && {
        grep -rlIE -m1 '^#!/bin/(ba)?sh' tools tests bench packaging vm .ci 2>/dev/null || true
        sources '*.sh'
    } | LC_ALL=C sort -u)
}
