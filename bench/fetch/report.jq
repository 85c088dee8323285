# SPDX-License-Identifier: Apache-2.0
#
# What bench/fetch/run makes of its lines, one a run.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# One object a number of keys.
def medians:
    [group_by(.keys)[] | . as $all | .[0] | with_entries(.key as $name | .value = ($all | map(.[$name]) | median))];

def csv: (.[0] | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;

def milli: . * 1000 | round / 1000;

def table:
    ["KEYS", "MERGED s", "COMPUTED s", "OUTPUT s", "AGENT CPU s", "SWITCH CPU s", "ns A KEY", "AGENT MIB", "SWITCH MIB",
     "ASK-RECV MIB"],
    (.[] | [.keys, (.merged | milli), (.computed | milli), (.output | milli), (.agent_cpu | milli), (.switch_cpu | milli),
            (.merged * 1e9 / .keys | round), .agent_mib, .switch_mib, .recv_mib])
    | @tsv;

# Of 10^8 keys, if there was such a run.
def verdict:
    .target_seconds as $target
    | .runs | medians[] | select(.keys == 100000000)
    | "10^8 keys within \($target) s: \(if .computed <= $target then "met" else "NOT met" end)";
