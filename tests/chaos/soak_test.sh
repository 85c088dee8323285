#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A short soak is good; one whose receiver prints a wrong answer is found out and says how
# to run the round again.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
build=${ASK_BUILD_DIR:-$root/build/release}
scratch=$(mktemp -d /tmp/ask-soak-test.XXXXXX)
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

fail() {
    printf 'FAIL %s line %s: %s\n' "${BASH_SOURCE[1]##*/}" "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

# soak BUILD ARGUMENT... : sets $code and $said; the verdict is in $scratch/verdict.
soak() {
    code=0
    said=$(ASK_BUILD_DIR=$1 "$root/tools/soak" --json --out "$scratch/kept" "${@:2}" 2>&1 >"$scratch/verdict") || code=$?
}

# A build whose NAME is the script on standard input; the real one is $REAL there.
planted_build() {
    mkdir -p "$scratch/planted"
    rm -rf "$scratch/planted/bin"
    cp -rs "$build/bin" "$scratch/planted/bin"
    ln -sfn "$build/tests" "$scratch/planted/tests"
    rm "$scratch/planted/bin/$1"
    { printf '#!/bin/bash\nREAL=%q\n' "$build/bin/$1" && cat; } >"$scratch/planted/bin/$1"
    chmod +x "$scratch/planted/bin/$1"
}

soak "$build" --rounds 4 --minutes 0 --seed 2025
((code == 0)) || fail "a soak of the real thing ended with $code: $said $(cat "$scratch/verdict")"
jq -e '.failure == null and .rounds == 4 and .exact > 0 and .faults.packets > 0' "$scratch/verdict" >/dev/null ||
    fail "the verdict: $(cat "$scratch/verdict")"
echo "ok a short soak: $(jq -c '[.tasks, .exact, .errors, .tuples]' "$scratch/verdict") (${SECONDS}s)"

planted_build ask-recv <<'PLANTED'
"$REAL" "$@" | sed '1s/$/0/'
exit "${PIPESTATUS[0]}"
PLANTED
soak "$scratch/planted" --rounds 1 --minutes 0 --seed 2025
((code == 1)) || fail "a wrong answer gave exit code $code: $said"
jq -re .failure "$scratch/verdict" | grep -q 'WRONG ANSWER of task .* --seed 2025 --first-round 1' ||
    fail "a wrong answer is not called one: $(cat "$scratch/verdict")"
ls "$scratch"/kept/seed2025-round1/logs/sw.log >/dev/null || fail "the failed round's logs were not kept"
echo "ok a wrong answer is found (${SECONDS}s)"

soak "$build" --groups --rounds 3 --minutes 0 --seed 11
((code == 0)) || fail "a soak of groups ended with $code: $said $(cat "$scratch/verdict")"
jq -e '.failure == null and .rounds == 3 and .groups > 2 and .whole + .shrunk > 0' "$scratch/verdict" >/dev/null ||
    fail "the verdict on groups: $(cat "$scratch/verdict")"
echo "ok a short soak of groups: $(jq -c '[.groups, .whole, .shrunk, .failed]' "$scratch/verdict") (${SECONDS}s)"

soak "$build" --relays --rounds 1 --minutes 0 --seed 1
((code == 0)) || fail "a soak of relays ended with $code: $said $(cat "$scratch/verdict")"
jq -e '.failure == null and .rounds == 1 and .exact > 0' "$scratch/verdict" >/dev/null || fail "the verdict on relays: $(cat "$scratch/verdict")"
echo "ok a short soak on relays: $(jq -c '[.tasks, .exact, .errors]' "$scratch/verdict") (${SECONDS}s)"

for bad in "--groups --relays" "--minutes x" "--seed" "--minutes 0" "--first-round 0" "--often"; do
    # shellcheck disable=SC2086 # option and value
    soak "$build" $bad
    ((code == 2)) || fail "soak $bad ended with $code: $said"
done
echo "ok refusals (${SECONDS}s)"
