# SPDX-License-Identifier: Apache-2.0
#
# What bench/job/run makes of its lines, one a run.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# One object a job: medians over its runs. In the order of the runs, data by data and senders by senders.
def medians:
    [to_entries | group_by([.value.data, .value.senders, .value.way])[]
     | {at: (map(.key) | min), first: .[0].value, all: map(.value)}]
    | sort_by(.at)
    | map(. as $job
          | $job.first
          + ({} | reduce ("wall_seconds", "senders_cpu_seconds", "receiver_cpu_seconds", "machine_busy_seconds",
                          "receiver_link_bytes", "ring_frames", "ring_lost") as $name (.; .[$name] = ($job.all | map(.[$name]) | median)))
          | .receiver_cpu_us_per_tuple = .receiver_cpu_seconds * 1e6 / .tuples
          | .machine_us_per_tuple = .machine_busy_seconds * 1e6 / .tuples);

def csv: (.[0] | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;

def three: . * 1000 | round / 1000;

def table:
    ["data", "senders", "way", "wall", "CPU senders", "CPU receiver", "machine", "us a tuple", "receiver's link"],
    ["", "", "", "s", "s", "s", "s", "machine", "MB"],
    (.[] | [.data, .senders, .way, (.wall_seconds | three), (.senders_cpu_seconds | three), (.receiver_cpu_seconds | three),
            (.machine_busy_seconds | three), (.machine_us_per_tuple | three), (.receiver_link_bytes / 1e6 | three)])
    | @tsv;
