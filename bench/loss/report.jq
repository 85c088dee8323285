# SPDX-License-Identifier: Apache-2.0
#
# What bench/loss/run makes of its lines, one a run.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# One object a loss and way: medians over its runs, in the order of the runs.
def medians:
    [to_entries | group_by([.value.loss_percent, .value.way])[]
     | {at: (map(.key) | min), first: .[0].value, all: map(.value)}]
    | sort_by(.at)
    | map(. as $row
          | $row.first
          + ({} | reduce ("seconds", "tuples_per_second", "packets_sent", "retransmissions", "packets_lost") as $name
                    (.; .[$name] = ($row.all | map(.[$name]) | median))));

def csv: (.[0] | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;

def table:
    ["loss %", "timeout", "tuples", "seconds", "tuples/s", "packets", "sent again", "lost"],
    (.[] | [.loss_percent, .way, .tuples, (.seconds * 1000 | round / 1000), (.tuples_per_second | round), .packets_sent,
            .retransmissions, .packets_lost])
    | @tsv;
