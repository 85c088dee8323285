#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What may know of what in bpf/: the engine knows no service, and of tuples no word; nothing there includes tests, bench
# or user space. bpf/services.bpf.h is the one place that lists services, bpf/switch.bpf.c the one that calls them.

set -euo pipefail

cd "$ASK_SOURCE_DIR"
failed=0

complain() {
    printf '%s\n' "$*" >&2
    failed=1
}

# Whole words, parts of names among them: grow and throw are not about rows.
readonly tuples='(^|[^[:alpha:]])(slots?|rows?|aas?|bitmaps?|tuples?|operators?|geometry|aggregat[a-z]*|groups?|short_[a-z]*)([^[:alpha:]]|$)'
! grep -rniE "$tuples" bpf/engine || complain "bpf/engine (above) knows what packets of tuples are made of: that is bpf/tuples'"

# includes FOLDER...: what files there include, but for what is allowed by the pattern.
stray_includes() {
    local -r allowed=$1
    shift
    grep -rnE '^#include "' "$@" | grep -vE "#include \"($allowed)" || true
}

! stray_includes 'bpf/engine/|bpf/services\.bpf\.h|lib/abi/' bpf/engine | grep . || complain "bpf/engine includes more than itself"
! stray_includes 'bpf/(engine|tuples)/|lib/abi/' bpf/tuples | grep . || complain "bpf/tuples includes more than engine and itself"
! grep -rlF 'bpf/services.bpf.h"' bpf | grep -vxF bpf/engine/service.bpf.h || complain "only bpf/engine/service.bpf.h includes the list of services"
! stray_includes 'bpf/|lib/abi/' bpf | grep . || complain "bpf/ includes something that is not the kernel's"
((failed)) || echo "bpf/ keeps its layers"
exit "$failed"
