#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# DuckDB, which reads and writes Arrow's C data interface and is not ours: its columns are sent by the Python package; results, of sums and of
# means, are tables there. Every number is awk's. And docs/recipes.md's table, word for word, of what ask-recv has written.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

libduckdb=$(find "$build/duckdb" -name libduckdb.so -print -quit)
readonly libduckdb
[[ $libduckdb ]] || fail "no libduckdb.so in $build/duckdb: tools/with/duckdb"

# duck LOG NODE ACTION ARGUMENT... : duckdb_columns.py.
duck() {
    spawn "$1" "$2" env PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1 ASK_LIBRARY="$build/lib/ask/libask.so.0" \
        /usr/bin/python3 "$root/tests/libask/duckdb_columns.py" "$3" "$libduckdb" "${@:4}" </dev/null
}

# ends WHAT LOG PID
ends() {
    exit_of "$3"
    ((code == 0)) || fail "$1 ended with $code: $(cat "$2.err")"
}

# there_and_back OP EXPECTED : one host's DuckDB to another's.
there_and_back() {
    duck "$scratch/$1-recv" h3 receive "$1" "$1"
    local -r receiver=$spawned
    duck "$scratch/$1-send" h1 send "$scratch/rows.csv" "$1" h3
    ends "the sender of $1" "$scratch/$1-send" "$spawned"
    ends "the receiver of $1" "$scratch/$1-recv" "$receiver"
    [[ $(<"$scratch/$1-send.out") == "3 batches" ]] || fail "$1: $(<"$scratch/$1-send.out"), not 3"
    diff "$2" "$scratch/$1-recv.out" >&2 || fail "$1: DuckDB (>) has other numbers than awk (<)"
    pass "$1: DuckDB's columns there, and a table of DuckDB's made of the result"
}

# block HEADING LANGUAGE : what stands in the first such fence below it.
block() {
    awk -v head="### $1" -v fence="\`\`\`$2" '
        /^##/ { on = $0 == head } open && /^```/ { exit } open { print } on && $0 == fence { open = 1 }' "$root/docs/recipes.md"
}

# The SQL of the recipe, and what stands below it.
recipe() {
    printf 'to\nbe\nor\nnot\nto\nbe\n' >"$scratch/words.txt"
    spawn "$scratch/recipe" h3 ask-recv --task recipe --senders 1 --op count --format csv --output "$scratch/counts.csv" </dev/null
    local -r receiver=$spawned
    on h1 ask-send --task recipe --to h3 --count "$scratch/words.txt"
    ends "the recipe's receiver" "$scratch/recipe" "$receiver"
    block DuckDB sql >"$scratch/recipe.sql"
    [[ -s $scratch/recipe.sql ]] || fail "docs/recipes.md has no SQL for DuckDB"
    sed -i "s|'counts.csv'|'$scratch/counts.csv'|" "$scratch/recipe.sql"
    duck "$scratch/sql" h3 sql "$scratch/recipe.sql"
    ends "the recipe's SQL" "$scratch/sql" "$spawned"
    diff <(block DuckDB text) "$scratch/sql.out" >&2 || fail "the recipe prints (>) what the document does not show (<)"
    pass "the recipe"
}

# 5000 rows are three chunks of DuckDB's.
awk 'BEGIN { print "key,value"; for (i = 0; i < 5000; i++) printf "%s%d,%d\n", i % 3 ? "k" : "a longer key of ", i % 97, i * 7919 % 100003 - 50000 }' >"$scratch/rows.csv"
tail -n +2 "$scratch/rows.csv" | awk -F, '{ sum[$1] += $2; all += $2 } END { for (key in sum) printf "%s\t%d\n", key, sum[key] | "LC_ALL=C sort"
    close("LC_ALL=C sort"); printf "all\t%d\n", all }' >"$scratch/sums"
tail -n +2 "$scratch/rows.csv" | awk -F, '{ sum[$1] += $2; ++count[$1] } END { for (key in sum) printf "%s\t%d\t%d\n", key, sum[key], count[key] | "LC_ALL=C sort"
    close("LC_ALL=C sort"); printf "all\t%d\n", NR }' >"$scratch/means"
lab_up --hosts 3
there_and_back sum "$scratch/sums"
there_and_back mean "$scratch/means"
recipe
