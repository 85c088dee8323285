#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every BPF object of the build must load on Linux 6.1: no instruction of CPU v4, no deeper stack than it allows, BTF
# present, and none of it made from this machine's own kernel headers.

set -euo pipefail

objdump=llvm-objdump-19
command -v "$objdump" >/dev/null || { echo "no $objdump here: run tools/install-deps" >&2 && exit 1; }

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
readonly max_stack=512

mapfile -t objects < <(find "$ASK_BUILD_DIR/bpf" -name '*.bpf.o')
((${#objects[@]})) || { echo "no BPF objects in $ASK_BUILD_DIR/bpf" >&2 && exit 1; }

for object in "${objects[@]}"; do
    "$objdump" --section-headers "$object" | grep -wF .BTF >/dev/null || { echo "$object has no BTF" >&2 && exit 1; }
    # v4 alone has sign-extending moves and loads, byte swaps without a target, signed division, long jumps.
    if "$objdump" --disassemble --no-show-raw-insn --mcpu=v4 "$object" |
        grep -nE '\(s(8|16|32)\)|\*\(s(8|16|32) \*\)|bswap|s[/%]=|gotol'; then
        echo "$object holds instructions of CPU v4 (above), which Linux 6.1 does not know" >&2
        exit 1
    fi
    read -r stack chain < <("$objdump" --disassemble --reloc --no-show-raw-insn "$object" | awk -f "$here/stack_depth.awk")
    printf '%s: %s bytes of stack: %s\n' "${object##*/}" "$stack" "$chain"
    if ((stack == 0 || stack > max_stack)); then
        echo "$object: Linux 6.1 allows a chain of calls $max_stack bytes of stack" >&2
        exit 1
    fi
done
if grep -rn --include='*.c' --include='*.h' 'vmlinux\.h"' "$ASK_SOURCE_DIR/bpf" "$ASK_SOURCE_DIR/lib/abi"; then
    echo "vmlinux.h makes the object depend on the machine that built it: include <linux/...> instead" >&2
    exit 1
fi
echo "checked ${#objects[@]} objects"
