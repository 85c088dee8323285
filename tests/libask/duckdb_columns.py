# SPDX-License-Identifier: Apache-2.0
"""duckdb_columns.py send LIBDUCKDB FILE.csv TASK HOST : the table that DuckDB makes of a file, sent as it gives it to Arrow, chunk by chunk.
duckdb_columns.py receive LIBDUCKDB TASK OP : a result, as Arrow has it, in DuckDB: what SELECT finds there, by key.
duckdb_columns.py sql LIBDUCKDB FILE.sql : what the last statement of a file selects.

DuckDB is called by its C functions. Rows are printed as key<TAB>number..."""

import ctypes
import sys

import ask
from ask import arrow

new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
pointer_of = arrow._pointer_of


class DuckDB:
    """A database in memory."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.duckdb_query_arrow_error.restype = ctypes.c_char_p
        database, self.connection = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("open", None, ctypes.byref(database))
        self.call("connect", database, ctypes.byref(self.connection))

    def call(self, name, *arguments):
        if getattr(self.library, f"duckdb_{name}")(*arguments) != 0:
            raise RuntimeError(f"duckdb_{name} failed")

    def batches(self, query):
        """What it selects, as Arrow has it; empty at the end of a walk."""
        result, schema = ctypes.c_void_p(), arrow._Schema()
        if self.library.duckdb_query_arrow(self.connection, query.encode(), ctypes.byref(result)) != 0:
            raise RuntimeError(self.library.duckdb_query_arrow_error(result).decode())
        self.call("query_arrow_schema", result, ctypes.byref(ctypes.c_void_p(ctypes.addressof(schema))))
        while True:
            array = arrow._Array()
            self.call("query_arrow_array", result, ctypes.byref(ctypes.c_void_p(ctypes.addressof(array))))
            if not array.release:
                return
            yield Batch(schema, array)

    def scan(self, name, producer):
        """A view of this name over what gives itself to Arrow, for one query."""
        self.kept = producer.__arrow_c_array__()
        schema, array = self.kept
        stream = ctypes.c_void_p()
        self.call(
            "arrow_array_scan", self.connection, name.encode(), ctypes.c_void_p(pointer_of(schema, b"arrow_schema")),
            ctypes.c_void_p(pointer_of(array, b"arrow_array")), ctypes.byref(stream),
        )  # fmt: skip

    def print_rows(self, query):
        """Of a key and integers."""
        for batch in self.batches(query):
            columns = [batch.numbers(i) for i in range(1, batch.schema.n_children)]
            for row, key in enumerate(batch.strings(0)):
                print(key.decode(), *(column[row] for column in columns), sep="\t")


class Batch:
    """Some rows of DuckDB's, which keeps the memory."""

    def __init__(self, schema, array):
        self.schema, self.array = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return (
            new_capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
            new_capsule(ctypes.addressof(self.array), b"arrow_array", None),
        )

    def strings(self, column):
        schema, array = self.schema.children[column].contents, self.array.children[column].contents
        strings = arrow.Strings(self, schema, array, 0, self.array.length)
        kind = ctypes.c_int32 if strings.offset_type == 1 else ctypes.c_int64
        offsets = (kind * (strings.rows + 1)).from_address(strings.offsets)
        data = ctypes.string_at(strings.data, strings.data_bytes)
        return [data[offsets[row] : offsets[row + 1]] for row in range(strings.rows)]

    def numbers(self, column):
        schema, array = self.schema.children[column].contents, self.array.children[column].contents
        return arrow._numbers(self, schema, array, 0, self.array.length).tolist()


def send(duckdb, path, task, host):
    rows = f"SELECT key, value FROM read_csv('{path}', header = true, columns = {{key: 'VARCHAR', value: 'BIGINT'}})"
    batches = 0
    with ask.Sender(task, host) as to:
        for batch in duckdb.batches(rows):
            to.push(batch)
            batches += 1
        to.finish()
    print(f"{batches} batches")


def receive(duckdb, task, op):
    result = ask.receive(task, op=op)
    duckdb.scan("result", result)
    for _ in duckdb.batches("CREATE TABLE words AS SELECT * FROM result"):
        pass
    columns = "value" if result.counts is None else '"sum", "count"'
    # Sums of DuckDB's are wider than an int64.
    duckdb.print_rows(f"SELECT decode(key), {columns} FROM words ORDER BY key")
    total = "value" if result.counts is None else '"count"'
    duckdb.print_rows(f"SELECT 'all', sum({total})::BIGINT FROM words")


def sql(duckdb, path):
    with open(path) as file:
        *before, last = [each for each in file.read().split(";") if each.strip()]
    for each in before:
        for _ in duckdb.batches(each):
            pass
    duckdb.print_rows(last)


action, library, *rest = sys.argv[1:]
{"send": send, "receive": receive, "sql": sql}[action](DuckDB(library), *rest)
