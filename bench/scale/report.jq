# SPDX-License-Identifier: Apache-2.0
#
# What bench/scale/run makes of its lines, one a point.

def csv: (.[0] | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;

def table:
    ["POINT", "CHANNELS", "TASKS", "KEYS", "TUPLES", "SECONDS", "M TUPLES/S", "SENDER MIB", "RECEIVER MIB"],
    (.[] | [.point, .channels, .tasks, .keys, .tuples, .seconds, (.tuples / .seconds / 1e4 | round / 100),
            (.sender_agent_kib / 1024 | round), (.receiver_agent_kib / 1024 | round)])
    | @tsv;
