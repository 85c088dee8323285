#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests of what checks the documents, by mistakes planted in some, and of the tree's links: check_test.sh links|index|figures|lists|promises|errors|blocks

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
scratch=$(mktemp -d /tmp/ask-docs-test.XXXXXX)
readonly here scratch
background=

cleanup() {
    [[ -z $background ]] || kill -KILL "$background" 2>/dev/null || true
    rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    printf 'FAIL line %s: %s\n' "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

# finds TEXT COMMAND... : it fails, and says so.
finds() {
    local -r text=$1
    shift
    ! "$@" >"$scratch/said" 2>&1 || fail "passes, though: $text"
    grep -qF -- "$text" "$scratch/said" || fail "does not say '$text', but: $(<"$scratch/said")"
}

# shellcheck disable=SC2016  # backticks of Markdown
test_links() {
    "$here/check_links" "$here/../.." || fail "dead links (above)"
    mkdir "$scratch/docs"
    printf '# One `two`, three!\n\n[up](../README.md) [here](#one-two-three) [web](https://example.org/#x)\n' >"$scratch/docs/a.md"
    printf 'text [a](docs/a.md#one-two-three) [folder](docs)\n```\n[no](link)\n```\n' >"$scratch/README.md"
    "$here/check_links" "$scratch" || fail "good links are said to be dead"
    printf '[gone](docs/b.md)\n' >"$scratch/bad.md"
    finds './bad.md:1: docs/b.md leads nowhere' "$here/check_links" "$scratch"
    printf '\n[out](../../etc/passwd)\n' >"$scratch/bad.md"
    finds './bad.md:2: ../../etc/passwd leads nowhere' "$here/check_links" "$scratch"
    printf '[anchor](docs/a.md#two)\n' >"$scratch/bad.md"
    finds 'has no heading for #two' "$here/check_links" "$scratch"
}

# shellcheck disable=SC2016  # backticks of Markdown
test_errors() {
    "$here/check_errors" "$here/../.." || fail "errors are quoted that nobody says (above)"
    mkdir "$scratch/errors"
    (cd "$here/../.." && cp -r --parents docs/troubleshooting.md docs/commands.md lib agent loader relay controller tools/cli packaging/debian "$scratch/errors")
    sed -i 's/senders joined within/senders came within/' "$scratch"/errors/lib/control/receive/*.cpp
    finds 'no source says: senders joined within' "$here/check_errors" "$scratch/errors"
    sed -i '/^| 12 |/d' "$scratch/errors/docs/troubleshooting.md"
    finds 'nothing for exit code 12' "$here/check_errors" "$scratch/errors"
    # Pieces that are there, but not in one message, or in another order.
    cp "$here/../../docs/troubleshooting.md" "$scratch/errors/docs/"
    sed -i 's/`kept at ... until`/`until ... kept at`/' "$scratch/errors/docs/troubleshooting.md"
    finds 'in one message, in this order: until ... kept at' "$here/check_errors" "$scratch/errors"
    sed -i 's/`until ... kept at`/`kept at ... this kernel lacks`/' "$scratch/errors/docs/troubleshooting.md"
    finds 'in one message, in this order: kept at ... this kernel lacks' "$here/check_errors" "$scratch/errors"
}

# shellcheck disable=SC2016  # backticks of Markdown
test_lists() {
    "$here/check_lists" "$here/../.." || fail "documents and lists differ (above)"
    mkdir "$scratch/tree"
    (cd "$here/../.." && cp -r --parents docs/*.md lib/abi tools/cli/cli.cpp loader/config.cpp proto "$scratch/tree")
    sed -i 's/^ASK_LEFT_STAT(overflow/ASK_LEFT_STAT(busy, "somebody was busy")\n&/; s/tuples handed in/tuples given/' \
        "$scratch/tree/lib/abi/stats.def"
    finds 'has no row: | `.busy` | somebody was busy |' "$here/check_lists" "$scratch/tree"
    finds 'has no row: | `tuples_in` | tuples given |' "$here/check_lists" "$scratch/tree"
    "$here/check_lists" --fix "$scratch/tree" || fail "cannot write the rows"
    grep -A1 -F '| `.collision` |' "$scratch/tree/docs/commands.md" | grep -qF '| `.busy` | somebody was busy |' ||
        fail "a new row is not behind the one before it"
    sed -i 's/^#define ASK_MAX_SENDERS .*/#define ASK_MAX_SENDERS 77u/' "$scratch/tree/lib/abi/limits.h"
    finds 'should say "1 to 77 "' "$here/check_lists" "$scratch/tree"
}

# table ROW: of promises, with this row.
table() {
    printf '| promise | test |\n| --- | --- |\n%s\n' "$1" >"$scratch/docs/security.md"
}

# shellcheck disable=SC2016  # backticks of Markdown
test_promises() {
    "$here/check_promises" "$here/../.." || fail "promises without a test (above)"
    mkdir -p "$scratch/docs" "$scratch/tests"
    printf 'TEST_CASE(\n    "it holds, "\n    "always") {\n' >"$scratch/tests/a_test.cpp"
    printf '| promise | test |\n| --- | --- |\n| other | `tests/a_test.cpp` |\n' >"$scratch/docs/promises.md"
    table '| it holds | `tests/a_test.cpp`: "it holds, always" |'
    "$here/check_promises" "$scratch" || fail "a promise with a test is said to have none"
    table '| it holds | somewhere |'
    finds 'docs/security.md:3: names no test' "$here/check_promises" "$scratch"
    table '| it holds | `tests/b_test.cpp` |'
    finds 'there is no tests/b_test.cpp' "$here/check_promises" "$scratch"
    table '| it holds | `tests/a_test.cpp`: "it holds" |'
    finds 'no test of its file is called "it holds"' "$here/check_promises" "$scratch"
    printf 'Nothing.\n' >"$scratch/docs/security.md"
    finds 'docs/security.md:1: promises nothing' "$here/check_promises" "$scratch"
}

test_index() {
    "$here/check_index" "$here/../.." || fail "the index lacks something (above)"
    mkdir -p "$scratch/docs/decisions"
    printf '# A\n' >"$scratch/docs/a.md"
    printf '# 1. One\n\nStatus: in force; see [2](0002-two.md).\n' >"$scratch/docs/decisions/0001-one.md"
    local -r one='| [1. One](decisions/0001-one.md) | in force; see [2](decisions/0002-two.md) |'
    printf '[a](a.md)\n%s\n' "$one" >"$scratch/docs/README.md"
    "$here/check_index" "$scratch" || fail "a whole index is said to lack something"
    printf '%s\n' "$one" >"$scratch/docs/README.md"
    finds 'has no: ](a.md)' "$here/check_index" "$scratch"
    printf '[a](a.md)\n%s\n' "${one/in force/tried}" >"$scratch/docs/README.md"
    finds "has no: $one" "$here/check_index" "$scratch"
    printf '# 1. One\n' >"$scratch/docs/decisions/0001-one.md"
    finds 'decisions/0001-one.md has no "# N. Title" or no "Status: ...."' "$here/check_index" "$scratch"
}

# of_build COMMIT > FIGURES
of_build() {
    printf '{"machine": {"commit": "%s"}, "points": [{"tuples_a_packet": 1, "share_paper": 0.5, "share_header": 0.25,
             "share_measured": 0.25, "packets_a_second": 1e6, "tuples_a_second": 2e6}]}' "$1"
}

test_figures() {
    local -r tool=$here/../../tools/bench-docs table='| 1 | 50.0 % | 25.0 % | 25.0 % | 1.00 | 2.00 |'
    "$tool" --check || fail "a table of the documents is not what its figures make (above)"
    mkdir -p "$scratch/docs/figures"
    of_build 1a2b >"$scratch/docs/figures/one.json"
    printf '# A\n<!-- table one goodput -->\nold\n<!-- end of table -->\nafter\n' >"$scratch/docs/a.md"
    finds 'docs/a.md: is not what docs/figures makes of it' "$tool" --check --root "$scratch"
    "$tool" --root "$scratch" 2>/dev/null || fail "does not write a table"
    grep -qF -- "$table" "$scratch/docs/a.md" || fail "writes another table: $(<"$scratch/docs/a.md")"
    grep -qx after "$scratch/docs/a.md" || fail "loses what follows a table"
    ! grep -qx old "$scratch/docs/a.md" || fail "keeps an old table"
    "$tool" --check --root "$scratch" || fail "finds fault with its own table"
    of_build 3c4d >"$scratch/docs/figures/two.json"
    printf '<!-- table two goodput -->\n%s\n<!-- end of table -->\n' "$(sed -n '/^<!-- table/,/^<!-- end/p' "$scratch/docs/a.md" | sed '1d;$d')" \
        >"$scratch/docs/b.md"
    "$tool" --check --root "$scratch" || fail "finds fault with two documents of a build each"
    cat "$scratch/docs/b.md" >>"$scratch/docs/a.md"
    finds 'docs/a.md has figures of several builds (1a2b 3c4d)' "$tool" --check --root "$scratch"
    rm "$scratch/docs/figures/two.json" "$scratch/docs/b.md"
    of_build 1a2b-dirty >"$scratch/docs/figures/one.json"
    finds 'is of a tree with changes' "$tool" --check --root "$scratch"
    printf '<!-- table two goodput -->\n<!-- end of table -->\n' >"$scratch/docs/a.md"
    rm "$scratch/docs/figures/one.json"
    finds 'no docs/figures/two.json' "$tool" --check --root "$scratch"
}

# document LINE... : one of these lines.
document() {
    printf '%s\n' "$@" >"$scratch/doc.md"
}

blocks_say() {
    finds "$1" env ASK_DOCS_SECONDS="${2:-20}" "$here/blocks_test.sh" "$scratch/doc.md"
}

# What is planted here are lines of Markdown.
# shellcheck disable=SC2016
test_blocks() {
    local process
    document '```' 'echo one; echo two' '```' '' '<!-- output -->' '```' 'two' '```'
    "$here/blocks_test.sh" "$scratch/doc.md" || fail "a good block fails"
    document '```' 'echo one' '```' '' '<!-- output -->' '```' 'two' '```'
    blocks_say 'prints something else'
    document '```' 'false' 'true' '```'
    blocks_say 'ended with 1'
    document '```' 'sleep 1000' '```'
    blocks_say 'still runs after 1 s' 1
    document '```' 'cat' '```' '' 'text' '```toml' 'a = 1' '```'
    blocks_say ':6: does not run, and no comment above it says why'
    document '<!-- not run: -->' '```' 'true' '```'
    blocks_say "nobody knows what 'not run:' is"
    document '<!-- not run: reason -->' '```' 'sudo tools/lab up --huts 3' '```'
    blocks_say 'tools/lab has no --huts'
    document 'Use `ask-recv --taks` or `tools/labb up`.'
    blocks_say 'ask-recv has no --taks'
    blocks_say 'there is no tools/labb'
    document '## ask-send' '<!-- synopsis -->' '```' 'ask-send --task ID [--fast]' '```'
    blocks_say 'the synopsis of ask-send has --fast, its --help has not'
    blocks_say 'ask-send --help has --to, its synopsis has not'
    blocks_say 'the section of ask-send does not explain --task'
    document '```' 'sudo tools/lab up --hosts 1 --no-daemons' '```'
    blocks_say 'leaves its lab behind'
    # Whatever kills it takes all of it along.
    document '```' "tools/lab up --name k$$ --hosts 1 --no-daemons; touch $scratch/up; sleep 4321.$$" '```'
    "$here/blocks_test.sh" "$scratch/doc.md" >"$scratch/said" 2>&1 &
    background=$!
    until_true test -e "$scratch/up"
    until_true pgrep -fx "sleep 4321.$$"
    process=$background
    kill -KILL "$process"
    wait "$process" || true
    until_true gone pgrep -fx "sleep 4321.$$"
    ! ip netns list | grep -q "^ask-k$$-" || fail "a killed test leaves namespaces: $(ip netns list)"
}

gone() {
    ! "$@"
}

# until_true COMMAND... : within a time that is ample.
until_true() {
    local -r deadline=$((SECONDS + 20 * ${ASK_TEST_PATIENCE:-1}))
    until "$@" >/dev/null; do
        ((SECONDS < deadline)) || fail "waited in vain for: $* ($(cat "$scratch/said"))"
        sleep 0.05
    done
}

[[ $(type -t "test_${1-}") == function ]] || { echo "usage: $0 links|index|figures|lists|promises|blocks" >&2 && exit 2; }
"test_$1"
echo "ok $1"
