# SPDX-License-Identifier: Apache-2.0
#
# From the statistics of the runs (ask-recv --stats, docs/commands.md) to text.json, and from that to tables.

def share($part; $whole): if $whole > 0 then $part / $whole else 0 end;

# ASK's Table 1 (shares) and section 5.3 (tuples a packet of 24 slots, the worst of its texts).
def paper: {
    "yelp": {aggregated: 0.9218, acked: 0.7201, tuples_a_packet: 16.91},
    "NG": {aggregated: 0.8573, acked: 0.8435},
    "BAC": {aggregated: 0.9432, acked: 0.9036},
    "LMDB": {aggregated: 0.9149, acked: 0.8859}};

def data_packets: .packets_by_tuples | add;

def run_summary:
    {name, merging, geometry, geometry_reason, aggregators,
     tuples_in, tuples_merged, tuples_sent, tuples_switch, tuples_evicted,
     tuples_receiver,
     # A tuple that a hotter key drove out of its aggregator travels on, with whatever was added to it.
     never_reached_receiver: share(.tuples_in - .tuples_receiver.total - .tuples_evicted; .tuples_in),
     aggregated: share(.tuples_switch; .tuples_sent),
     packets_sent, packets_acked_by_switch, acked: share(.packets_acked_by_switch; .packets_sent),
     slots_filled: .slots_filled_ratio,
     tuples_a_packet: share(.slots_filled; data_packets),
     slots_a_packet: share(.slots_offered; data_packets),
     packets_by_tuples, retransmissions, seconds};

def document: {$machine, text: {name: $text, words: $words, distinct: $keys}, policy: $policy, how: "tools/lab, real daemons",
    runs: map(run_summary), paper: paper};

def csv:
    ["run", "merging", "geometry", "aggregators", "tuples_in", "tuples_merged", "tuples_switch", "tuples_evicted", "tuples_receiver",
     "never_reached_receiver", "aggregated", "packets_sent", "acked", "slots_filled", "tuples_a_packet", "seconds"],
    (.[] | [.name, .merging, .geometry, .aggregators, .tuples_in, .tuples_merged, .tuples_switch,
            .tuples_evicted, .tuples_receiver.total, .never_reached_receiver, .aggregated, .packets_sent, .acked, .slots_filled,
            .tuples_a_packet, .seconds])
    | @csv;

# Each run's packets by tuples, with the share of those that carry no more.
def distribution:
    . as $run | ($run.packets_by_tuples | add) as $all
    | foreach ($run.packets_by_tuples | to_entries[]) as $e (0; . + $e.value;
        {run: $run.name, tuples: $e.key, slots: $run.slots_a_packet, packets: $e.value, at_most: (. / $all)});

def slots_csv:
    ["run", "tuples", "packets", "at_most"],
    (.[] | distribution | [.run, .tuples, .packets, .at_most])
    | @csv;

def slots_curves: .[] | distribution | [.run, .tuples / .slots * 100, .at_most * 100] | @tsv;

def percent: . * 1000 | round / 10 | "\(.) %";

def tables:
    ["", "geometry", "aggregators", "merged", "aggregated", "never reached", "packets", "of them ACKed", "slots filled",
     "tuples"],
    ["run", "", "an AA", "by senders", "of sent", "the receiver", "", "by the switch", "", "a packet"],
    (.runs[] | [.name, .geometry, .aggregators, (share(.tuples_merged; .tuples_in) | percent), (.aggregated | percent),
        (.never_reached_receiver | percent), .packets_sent, (.acked | percent), (.slots_filled | percent),
        (.tuples_a_packet * 10 | round / 10)]),
    (.paper | to_entries[] | ["ASK, " + .key, "16+8x2*1", "", "0 %", (.value.aggregated | percent), "", "",
        (.value.acked | percent), (if .value.tuples_a_packet then .value.tuples_a_packet / 24 | percent else "" end),
        .value.tuples_a_packet // ""])
    | @tsv;
