# SPDX-License-Identifier: Apache-2.0
#
# Tables for the documents: one function each, from the JSON of a bench to lines of Markdown. tools/bench-docs calls
# them by name.

def fixed($digits): pow(10; $digits) as $unit | . * $unit | round
    | if $digits == 0 then tostring
      else (if . < 0 then "-" else "" end) as $sign | fabs | tostring
           | ("0" * ([$digits + 1 - length, 0] | max)) as $zeros | ($zeros // "") + .
           | $sign + .[:-$digits] + "." + .[-$digits:] end;
def percent($digits): . * 100 | fixed($digits) + " %";
# 1234567 as 1,234,567.
def grouped: round | tostring | [while(length > 0; .[:-3]) | .[-3:]] | reverse | join(",");

def row: "| " + (map(tostring) | join(" | ")) + " |";
# Columns whose heading begins with "<" hold words, others numbers.
def markdown($heads; rows):
    ($heads | map(ltrimstr("<")) | row),
    ($heads | map(if startswith("<") then "---" else "---:" end) | row),
    (rows | row);

def times($value): if $value == 0 or $value == null then "" else $value end;

def job:
    markdown(["<keys", "senders", "<way", "wall, s", "senders' CPU, s", "receiver's CPU, s", "machine, us a tuple", "receiver's link, MB"];
        .jobs[] | [.data, .senders, .way, (.wall_seconds | fixed(2)), (.senders_cpu_seconds | fixed(3)),
                   (.receiver_cpu_seconds | fixed(3)), (.machine_us_per_tuple | fixed(3)),
                   (.receiver_link_bytes / 1e6 | fixed(1))]);

# The reflector's ratio stands in the line of the way that it is for.
def wire_rows:
    ([.bars[] | select(.bar | startswith("share")) | {key: "\(.data) \(.senders)", value: .value}] | from_entries) as $of
    | .rows[] | [.data, .senders, .way, (.tuples_per_second / 1e6 | fixed(2)), (.packets_per_second | grouped),
                 (if .way == "wire" then ($of["\(.data) \(.senders)"] // null | if . then percent(1) else "" end) else "" end),
                 (.ack_us_p50 | fixed(0)), (.ack_us_p99 | fixed(0)), (.senders_cpu | fixed(3)), (.switch_cpu | fixed(3)),
                 (.receiver_cpu | fixed(3))];
def wire:
    markdown(["<keys", "senders", "<way", "M tuples/s", "packets/s", "of reflector's", "ACK p50, us", "p99, us",
              "CPU senders", "switch", "receiver"]; wire_rows);

def order_name: {"uniform": "uniform", "zipf-hot-first": "hot first", "zipf-hot-last": "hot last", "zipf-random": "random"}[.] // .;
def hotkeys:
    markdown(["<order", "<policy", "on switch", "upstream", "swaps", "ms a swap", "M tuples/s"];
        .trials[] | select(.order != "uniform")
        | [(.order | order_name), .policy, (.aggregated_share | percent(2)), (.upstream_share | percent(2)),
           times(.swaps), (if .swaps > 0 then .swap_seconds / .swaps * 1000 | fixed(2) else "" end),
           (.tuples_per_second / 1e6 | fixed(1))]);

def exponent: [while(. > 1; . / 2)] | length;
# Share of the tuples that goes upstream, %, a column for each size.
def hotkeys_sizes:
    ([.trials[].aggregators] | unique) as $sizes
    | .trials as $trials
    | markdown(["<order", "<policy"] + ($sizes | map("2^\(exponent)"));
        [$trials[] | [.order, .policy]] | reduce .[] as $pair ([]; if index([$pair]) then . else . + [$pair] end) | .[]
        | . as [$order, $policy]
        | [($order | order_name), $policy]
          + [$sizes[] as $size
             | first(($trials[] | select(.order == $order and .policy == $policy and .aggregators == $size)
                      | .upstream_share * 100 | fixed(1)), "")]);

def switch:
    markdown(["<memory", "<policy", "<load", "<geometry", "tuples", "aggregators an AA", "<size", "CPUs", "floor", "switch", "ratio"];
        .cases[] | select(.ns_floor > 0 and .floor_parts == "")
        | [.memory, .policy, .load, (.geometry | gsub("\\*"; "\\*")), .tuples, "2^\(.aggregators | exponent)", .size, .cpus,
           (.ns_floor | fixed(0)), (.ns_switch | fixed(0)), (.ratio_to_floor | fixed(2))]);

def goodput:
    markdown(["tuples a packet", "8x/(8x+78), the paper's", "8x/(8x+114+4r), this header", "measured", "M packets/s", "M tuples/s"];
        .points[] | [.tuples_a_packet, (.share_paper | percent(1)), (.share_header | percent(1)), (.share_measured | percent(1)),
                     (.packets_a_second / 1e6 | fixed(2)), (.tuples_a_second / 1e6 | fixed(2))]);

def loss:
    markdown(["lost, each way of each link", "adaptive, tuples/s", "fixed 100 us, tuples/s", "sent again, of 1000 packets: adaptive",
              "fixed"];
        [.rows | group_by(.loss_percent)[] | map({key: .way, value: .}) | from_entries | {adaptive, fixed: .["fixed-100us"]}][]
        | [(.adaptive.loss_percent | if . == 0 then "0" else "\(.) %" end), (.adaptive.tuples_per_second | grouped),
           (.fixed.tuples_per_second | grouped)]
          + ([.adaptive, .fixed] | map(.retransmissions * 1000 / .packets_sent | grouped)));

def scale:
    markdown(["<point", "channels", "tasks", "keys", "tuples", "seconds", "M tuples/s", "sender, MiB", "receiver, MiB"];
        .points[] | ["`\(.point)`", .channels, .tasks, (.keys | grouped), (.tuples | grouped), (.seconds | fixed(2)),
                     (.tuples / .seconds / 1e6 | fixed(2)), (.sender_agent_kib / 1024 | grouped),
                     (.receiver_agent_kib / 1024 | grouped)]);

def text:
    markdown(["<run", "<geometry", "aggregators an AA", "merged by senders", "never reached the receiver", "packets",
              "of them ACKed by the switch", "slots filled", "tuples a packet"];
        .runs[] | [.name, (.geometry | gsub("\\*"; "\\*")), .aggregators, (.tuples_merged / .tuples_in | percent(1)),
                   (.never_reached_receiver | percent(1)), (.packets_sent | grouped), (.acked | percent(1)),
                   (.slots_filled | percent(0)), (.tuples_a_packet | fixed(1))]);
