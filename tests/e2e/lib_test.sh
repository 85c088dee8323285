#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A test ends what it has left in the background, and nothing else: the number of a process that has ended before,
# waited for or not, is another's by then.

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
dir=$(mktemp -d /tmp/ask-lib-test.XXXXXX)
trap 'rm -r "$dir"' EXIT

# Without a lab what is spawned ends at once.
cat >"$dir/test.sh" <<TEST
source '$here/lib.sh'
kill() {
    printf '%s\n' "\${@: -1}" >>'$dir/killed'
    builtin kill "\$@"
}
spawn '$dir/waited-for' h1 true
exit_of "\$spawned"
spawn '$dir/ended' h1 true
wait_for 20 test ! -e "/proc/\$spawned"
# Runs until the test's end kills it: nothing waits for it.
sleep 1000 &
echo "\$!" >'$dir/left'
TEST
bash "$dir/test.sh"
cmp "$dir/left" "$dir/killed" || { echo "killed: $(paste -sd ' ' "$dir/killed"); still running was: $(cat "$dir/left")" >&2 && exit 1; }
! [[ -e /proc/$(cat "$dir/left") ]] || { echo "what was left still runs" >&2 && exit 1; }
echo "ok what has ended is not killed again"
