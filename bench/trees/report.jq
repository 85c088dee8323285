# SPDX-License-Identifier: Apache-2.0
#
# What bench/trees/run makes of its lines, one a run.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# One object a way, in the order of the runs: of counts the largest, since a FIN that was sent again counts again.
def medians:
    [to_entries | group_by([.value.rate, .value.k, .value.strategy])[] | {at: (map(.key) | min), all: map(.value)}]
    | sort_by(.at)
    | map(.all as $all | $all[0] | del(.run)
          | .counted = ($all | map(.counted) | max) | .equal = ($all | all(.equal)) | .runs = ($all | map(.runs) | max)
          | .bytes = ($all | map(.bytes) | median) | .seconds = ($all | map(.seconds) | median));

def table:
    ["rate", "strategy", "k", "switches", "planned", "counted", "each link", "bytes", "s", "runs"],
    (.[] | [.rate, .strategy, .k, .switches, .planned, .counted, (if .equal then "equal" else "differs" end), .bytes, (.seconds * 100 | round / 100), .runs])
    | @tsv;
