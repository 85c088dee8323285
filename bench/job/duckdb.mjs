// SPDX-License-Identifier: Apache-2.0
//
// duckdb.mjs PEERS FILE: "key<TAB>count" a line, in no order, of a file of lines of a key each. PEERS is where
// tools/bench-peers duckdb has installed DuckDB.
import { createRequire } from "node:module";

const [peers, file] = process.argv.slice(2);
const { DuckDBInstance } = createRequire(`${peers}/`)("@duckdb/node-api");
const text = (value) => `'${value.replaceAll("'", "''")}'`;
// No text is quoted, none is guessed to be a number.
const plain = "delim = '\t', quote = '', escape = '', header = false";
const database = await DuckDBInstance.create(":memory:", { threads: "1" });
const connection = await database.connect();
await connection.run(`
    COPY (SELECT key, count(*)
          FROM read_csv(${text(file)}, columns = {key: 'VARCHAR'}, auto_detect = false, ${plain})
          GROUP BY key)
    TO '/dev/stdout' (FORMAT csv, ${plain.replaceAll(" = ", " ")})`);
