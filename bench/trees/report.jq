# SPDX-License-Identifier: Apache-2.0
#
# What bench/trees/run makes of its lines, one a run.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# One object a way, in the order of the runs: of counts the largest.
def medians:
    [to_entries | group_by([.value.rate, .value.k, .value.strategy])[] | {at: (map(.key) | min), all: map(.value)}]
    | sort_by(.at)
    | map(.all as $all | $all[0] | del(.run)
          | .counted = ($all | map(.counted) | max) | .equal = ($all | all(.equal)) | .runs = ($all | map(.runs) | max)
          | .bytes = ($all | map(.bytes) | median) | .packets = ($all | map(.packets) | median) | .seconds = ($all | map(.seconds) | median));

def of_part($part): if $part == "ways" then medians else . end;

def two: . * 100 | round / 100;
def milli: . * 1000 | round / 1000;
def equal_or_not: if .equal then "equal" else "differs" end;

def ways_table:
    ["rate", "strategy", "k", "switches", "planned", "counted", "each link", "bytes", "packets", "geometry", "s", "runs"],
    (.[] | [.rate, .strategy, .k, .switches, .planned, .counted, equal_or_not, .bytes, .packets, .geometry, (.seconds | two), .runs]);

def trouble_table:
    ["topology", "k", "killed", "cut", "packets lost", "answer", "runs", "s"],
    (.[] | [.topology, (if .k == 0 then "own" else .k end), .killed, .cut, .lost, (if .exact then "exact" else "incomplete" end), .runs,
            (.seconds | two)]);

# A line a strategy: sums over all arrivals.
def online_table:
    ["strategy", "tasks", "all-red", "computed", "planned", "counted", "each link", "most taken", "share of all-red"],
    (group_by(.strategy)[] | [.[0].strategy, length, (map(.all_red) | add), (map(.computed) | add), (map(.planned) | add), (map(.counted) | add),
        ({equal: all(.equal)} | equal_or_not), (map(.most_taken) | max), ((map(.counted) | add) / (map(.all_red) | add) * 1000 | round / 1000)]);

def sizes_table:
    ["k", "switches", "bytes predicted", "counted", "away by, %", "worst link", "away by, %", "worst by pieces", "away by, %"],
    (.[] | [.k, .switches, (.predicted | round), .counted, (.away * 100 | two), .worst.link, (.worst.away * 100 | two), .worst_by_pieces.link,
            (.worst_by_pieces.away_by_pieces * 100 | two)]);

# A line for the first tasks, and one for all that followed.
def launch_table:
    ["task", "relays", "levels", "tasks", "s, median", "most", "ms a level"],
    (group_by(.task > 1)[] | (map(.seconds) | median) as $median
        | [(if .[0].task == 1 then "first" else "later" end), .[0].relays, .[0].levels, length, ($median * 1000 | round / 1000),
            (map(.seconds) | max), ($median * 1000 / .[0].levels | round)]);

def hop_table:
    ["reserve, MiB", "tasks", "parts", "tables, KiB", "s, median", "most", "runs"],
    (group_by(.reserve_mib)[] | [.[0].reserve_mib, length, (map(.parts) | max), (map(.tables_kib) | max), (map(.seconds) | median | milli),
        (map(.seconds) | max), (map(.runs) | max)]);

def racks_table:
    ["topology", "who adds up", "between switches: tuples", "all, bytes", "receiver's link: tuples", "all, bytes", "geometry", "s", "runs"],
    (.[] | [.topology, .way, .fabric, .fabric_all, .receiver, .receiver_all, .geometry, (.seconds | two), .runs]);

def table_of($part):
    (if $part == "ways" then ways_table elif $part == "trouble" then trouble_table elif $part == "online" then online_table elif $part == "launch" then launch_table
     elif $part == "hop" then hop_table elif $part == "racks" then racks_table else sizes_table end)
    | @tsv;
