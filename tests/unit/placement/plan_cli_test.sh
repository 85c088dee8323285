#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask-plan from outside: streams, exit codes, files.

set -euo pipefail

plan=$ASK_BUILD_DIR/bin/ask-plan
dir=$(mktemp -d /tmp/ask-plan-test.XXXXXX)
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    failed=1
}

# expect CODE TEXT ARGUMENT...: exit code and a part of what is said on either stream.
expect() {
    local -r want=$1 text=$2
    local said code=0
    shift 2
    said=$("$plan" "$@" 2>&1) || code=$?
    [[ $code == "$want" ]] || fail "ask-plan $*: exit code $code, not $want: $said"
    [[ $said == *"$text"* ]] || fail "ask-plan $*: says '$said', not '$text'"
}

cat >"$dir/racks.toml" <<'TOML'
[[switch]]
name = "spine"
[[switch]]
name = "tor1"
parent = "spine"
[[switch]]
name = "tor2"
parent = "spine"
[[host]]
name = "h1"
switch = "tor1"
[[host]]
name = "h2"
switch = "tor1"
[[host]]
name = "h3"
switch = "tor2"
[message]
model = "word-count"
text = "words.txt"
shards = 2
TOML
printf 'the cat and the dog and the bird\n' >"$dir/words.txt"

expect 0 'aggregate at tor1' "$dir/racks.toml" --receiver h3
expect 0 'at most 0 of 3' "$dir/racks.toml" --k 0
expect 2 '--k -1 is not a number of switches' "$dir/racks.toml" --k -1
expect 2 'none of utilisation' "$dir/racks.toml" --objective speed
expect 2 'unknown flag --no-such-flag; see ask-plan --help' "$dir/racks.toml" --no-such-flag
expect 2 'unknown flag --reciever: did you mean --receiver?' "$dir/racks.toml" --reciever h3
expect 0 'ask-plan 0.' --version
expect 4 "receiver 'h9' is no host" "$dir/racks.toml" --receiver h9
expect 3 "ask-plan: $dir/none.toml: no such file" "$dir/none.toml"
expect 3 "$dir: is a directory" --format toml "$dir"
expect 0 'to h1' "$dir/racks.toml" --senders h2,h3 --receiver h1
expect 0 'messages     2' --senders h2,h3 "$dir/racks.toml"

# The same from standard input, as JSON out.
"$plan" - --format toml --json <<<$'[[switch]]\nname = "r"\nload = 4\n' >"$dir/plan.json" || fail "from standard input"
[[ $(jq -r '.aggregate[0]' "$dir/plan.json") == r ]] || fail "JSON: $(cat "$dir/plan.json")"

# Where the file says where relays and hosts are, the plan as it is carried out; else why not.
"$plan" "$dir/racks.toml" --receiver h3 --json >"$dir/plan.json" || fail "as JSON"
[[ $(jq 'has("placement") or has("no_placement")' "$dir/plan.json") == false ]] || fail "a placement without addresses"
sed 's/^name = "tor1"/&\nrelay = "198.19.0.1:4793"/; s/^name = "h\(.\)"/&\naddress = "198.18.0.\1"/' "$dir/racks.toml" >"$dir/placed.toml"
"$plan" "$dir/placed.toml" --receiver h3 --json >"$dir/plan.json" || fail "as JSON, with addresses"
[[ $(jq -c '.placement | [.relays[0].name, .hosts[0].address, .hosts[1].entry]' "$dir/plan.json") == '["tor1","198.18.0.1","tor1"]' ]] ||
    fail "placement: $(cat "$dir/plan.json")"
sed -i '/^relay/d' "$dir/placed.toml"
"$plan" "$dir/placed.toml" --receiver h3 --json >"$dir/plan.json" || fail "as JSON, without relays"
[[ $(jq -r .no_placement "$dir/plan.json") == "switch 'tor1' has no 'relay'" ]] || fail "no_placement: $(cat "$dir/plan.json")"

"$plan" "$dir/racks.toml" --dot "$dir/p.dot" --svg "$dir/p.svg" >/dev/null || fail "pictures"
grep -q '^digraph' "$dir/p.dot" || fail "no DOT"
grep -q '</svg>' "$dir/p.svg" || fail "no SVG"
expect 4 '--dot' "$dir/racks.toml" --dot "$dir/no/such/folder.dot"
if [[ -e /dev/full ]]; then
    ! "$plan" "$dir/racks.toml" >/dev/full 2>"$dir/said" || fail "a plan that could not be written counts as printed"
fi

rm "$dir/words.txt"
expect 3 'words.txt: no such file' "$dir/racks.toml"

exit "$failed"
