#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The engine carries packets, whatever is in them: it includes nothing of a service, and speaks of none.

set -euo pipefail

cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."

failed=0

# refuse WHAT REGEX: lines of the engine that match, but for check keys, key_ and the counters' own names.
refuse() {
    local found
    found=$(grep -rnE "$2" lib/engine | grep -vE 'CheckKey|check key|[.>]key\b|key_|key\(agreed|: its key is gone|^lib/engine/packet.cpp:[0-9]+: *key\.seal|k_bad_geometry|k_table_full' || true)
    if [[ $found ]]; then
        printf 'lib/engine %s:\n%s\n' "$1" "$found" >&2
        failed=1
    fi
}

refuse 'includes a service' '#include "lib/(tuples|values)/'
refuse 'speaks of what only a service knows' '\b([Kk]eys?|[Vv]alues?|[Ss]lots?|[Gg]eometr(y|ies)|[Tt]uples?|[Tt]ables?)\b'

exit "$failed"
