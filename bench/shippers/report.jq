# SPDX-License-Identifier: Apache-2.0
#
# What bench/shippers/run makes of its runs: medians of each way, a line.

def median: sort | .[(length - 1) / 2 | floor];
def one: . * 10 | round / 10;

def medians: group_by(.way) | map(. as $runs | {way: .[0].way, lines: .[0].lines}
    + ([.[0] | keys_unsorted[] | select(endswith("_seconds") or endswith("_bytes"))] | map({(.): (. as $name | [$runs[][$name]] | median)}) | add));

def table:
    (["way", "link bytes a line", "receiver us a line", "senders us a line", "all CPUs us a line"]),
    (. as $all | .runs | medians | sort_by(.receiver_link_bytes)[]
     | [.way, (.receiver_link_bytes / .lines * 1000 | round / 1000), (.receiver_cpu_seconds / .lines * 1e8 | round / 100),
        (.senders_cpu_seconds / .lines * 1e8 | round / 100), (.machine_busy_seconds / .lines * 1e8 | round / 100)])
    | @tsv;
