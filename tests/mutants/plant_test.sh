#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A defect is planted in the function that it names, wherever that is and however it is broken into lines; and refused if
# that is not one place.

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
plant=$here/../../tools/lib/plant.pl
dir=$(mktemp -d)
trap 'rm -rf -- "$dir"' EXIT
mkdir -p "$dir"/{agent,bpf,lib/deep,loader,tests/sim}
cd "$dir"

cat >lib/deep/ends.cpp <<'SOURCE'
// closed(at) { return false; } is but said here.
bool closed(int at) const noexcept { return at > 1; }
auto End::closed(Call call = {}) const -> Result<std::vector<int>>
{
    log("}");  // "{"
    return call.last(
        first, second);
}
bool other() { return closed(call).last(first, second); }
SOURCE
cp lib/deep/ends.cpp tests/sim/mirror.cpp

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# defect: the places of one, from stdin.
defect() {
    { printf 'what: a test\n\n' && cat; } >"$dir/one.defect"
}

# refused PATTERN: it cannot be planted, and nothing is changed.
refused() {
    local said
    ! said=$("$plant" . one.defect 2>&1) || fail "planted what should be refused ($1)"
    grep -qE -- "$1" <<<"$said" || fail "says '$said', not '$1'"
    cmp -s lib/deep/ends.cpp tests/sim/mirror.cpp || fail "changed a file although it refuses ($1)"
}

defect <<'END'
in: closed
-    return call.last(first, second);
+    return call.last(second,
+                     first);
END
"$plant" --dry . one.defect
cmp -s lib/deep/ends.cpp tests/sim/mirror.cpp || fail "--dry changes a file"
[[ $("$plant" . one.defect) == ./lib/deep/ends.cpp ]] || fail "does not say which file it changed"
diff tests/sim/mirror.cpp lib/deep/ends.cpp >"$dir/diff" || true
[[ $(grep -c '^[<>]' "$dir/diff") == 4 ]] || fail "$(cat "$dir/diff")"
grep -q '^> *return call.last(second,$' "$dir/diff" || fail "$(cat "$dir/diff")"
cp tests/sim/mirror.cpp lib/deep/ends.cpp

defect <<<$'in: tests/sim other\n-first, second\n+second, first'
[[ $("$plant" . one.defect) == ./tests/sim/mirror.cpp ]] || fail "does not keep to the folder that is named"
cp lib/deep/ends.cpp tests/sim/mirror.cpp

defect <<<$'in: gone\n-return\n+return !'
refused 'no function gone'
defect <<<$'in: closed\n-return third;\n+return second;'
refused '0 places in 2 functions'
defect <<<$'in: closed\n-return\n+return !'
refused '2 places in 2 functions'
defect <<<$'in: other\n-return\n+return !\n\nin: closed\n-third\n+second'
refused '0 places'
defect <<<$'in: closed\nreturn third;'
refused 'what is "return third;"'
defect <<<''
refused 'names no place'
