# SPDX-License-Identifier: Apache-2.0
#
# What bench/flood/run makes of its lines, one a run.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# One object a kind, in the order of the runs; `beside_udp` is its progress against that beside ordinary UDP.
def medians:
    [to_entries | group_by(.value.kind)[] | {at: (map(.key) | min), all: map(.value)}]
    | sort_by(.at)
    | map({kind: .all[0].kind, tuples: .all[0].tuples}
          + (. as $row | {} | reduce ("seconds", "tuples_per_second", "flood_per_second", "retransmissions") as $name
                    (.; .[$name] = ($row.all | map(.[$name]) | median))))
    | (map(select(.kind == "udp"))[0].tuples_per_second) as $udp
    | map(. + {beside_udp: (.tuples_per_second / $udp)});

def csv: (.[0] | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;

def table:
    ["flood", "frames/s", "tuples", "seconds", "tuples/s", "sent again", "beside udp"],
    (.[] | [.kind, (.flood_per_second | round), .tuples, (.seconds * 1000 | round / 1000), (.tuples_per_second | round),
            .retransmissions, (.beside_udp * 100 | round / 100)])
    | @tsv;
