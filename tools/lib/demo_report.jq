# SPDX-License-Identifier: Apache-2.0
#
# From the runs of tools/demo (an array, the plain run last if there is one) to its report:
# `summary` is what --json prints, `tables` the same as tab-separated rows, one heading a block.

def sum_of(f): [.[] | f] | add;

# One direction of one link is seen from the host's end.
def traffic: {packets: sum_of(.packets), bytes: sum_of(.bytes)};

def share($part; $whole): if $whole > 0 then $part / $whole else null end;

def percent: if . == null then "-" else "\((. * 10000 | round) / 100) %" end;

def run_summary:
    .receive as $r
    | (.send | {tuples_in: sum_of(.tuples_in), tuples_merged: sum_of(.tuples_merged), tuples_sent: sum_of(.tuples_sent),
        packets_sent: sum_of(.packets_sent), packets_acked_by_switch: sum_of(.packets_acked_by_switch),
        slots_filled: sum_of(.slots_filled), slots_offered: sum_of(.slots_offered // 0),
        retransmissions: sum_of(.retransmissions)}) as $s
    | {name, title, correct, seconds, distinct_keys,
       tuples: ({in: $s.tuples_in, merged: $s.tuples_merged, sent: $s.tuples_sent, switch: $r.tuples_switch,
                 evicted: $r.tuples_evicted, receiver: $r.tuples_receiver}),
       never_reached_receiver: share($s.tuples_in - $r.tuples_receiver.total - $r.tuples_evicted; $s.tuples_in),
       fetched: $r.fetched,
       packets_sent: $s.packets_sent,
       packets_acked_by_switch: share($s.packets_acked_by_switch; $s.packets_sent),
       slots_filled: share($s.slots_filled; $s.slots_offered),
       retransmissions: $s.retransmissions,
       links: {receiver: {received: .links.h4.rx, sent: .links.h4.tx},
               senders: {received: ([.links.h1.rx, .links.h2.rx, .links.h3.rx] | traffic),
                         sent: ([.links.h1.tx, .links.h2.tx, .links.h3.tx] | traffic)}}};

def both_ways: {packets: (.received.packets + .sent.packets), bytes: (.received.bytes + .sent.bytes)};

def summary:
    map(run_summary)
    | (map(select(.name == "plain")) | first) as $plain
    | map(if $plain == null or .name == "plain" then .
          else (.links.receiver | both_ways) as $mine | ($plain.links.receiver | both_ways) as $theirs
              | .receiver_link_share = {packets: share($mine.packets; $theirs.packets), bytes: share($mine.bytes; $theirs.bytes)}
          end);

def row($name; f): [$name] + map(f | if . == null then "-" else tostring end);

def of_input($part): "\($part) (\(share($part; .tuples.in) | percent))";

def link_row($name; f): row($name; f | "\(.packets) / \(.bytes)");

def tables:
    row("= where tuples were aggregated"; .title),
    row("handed in"; .tuples.in),
    row("merged by the senders"; of_input(.tuples.merged)),
    row("added up on the switch"; of_input(.tuples.switch)),
    row("  evicted again, to the receiver"; of_input(.tuples.evicted)),
    row("added up at the receiver"; of_input(.tuples.receiver.total)),
    row("  another key in its place"; .tuples.receiver.collision),
    row("  key too long, or odd"; .tuples.receiver.long),
    row("  sum past 32 bits"; .tuples.receiver.overflow),
    row("  contention"; .tuples.receiver.contention),
    row("  task without a region"; .tuples.receiver.no_region),
    row("never reached the receiver"; .never_reached_receiver | percent),
    row("aggregators fetched at the end"; .fetched),
    row("packets sent once"; .packets_sent),
    row("  acknowledged by the switch"; .packets_acked_by_switch | percent),
    row("  slots filled"; .slots_filled | percent),
    row("sent again"; .retransmissions),
    row("= links, packets / bytes"; .title),
    link_row("receiver h4, received"; .links.receiver.received),
    link_row("receiver h4, sent"; .links.receiver.sent),
    link_row("senders h1-h3, sent"; .links.senders.sent),
    link_row("senders h1-h3, received"; .links.senders.received),
    row("h4 both ways, packets"; if .receiver_link_share then .receiver_link_share.packets | percent else "100 %" end),
    row("h4 both ways, bytes"; if .receiver_link_share then .receiver_link_share.bytes | percent else "100 %" end),
    row("= time"; .title),
    row("seconds, first to last"; .seconds * 100 | round / 100);
