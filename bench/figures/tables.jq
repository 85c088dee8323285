# SPDX-License-Identifier: Apache-2.0
#
# Tables for the documents: one function each, from the JSON of a bench to lines of Markdown. tools/bench-docs calls
# them by name.

include "plot";

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

def back_cases: .cases[] | select(.load == "back" and .floor_parts == "no back level");
def switch_back:
    markdown(["<geometry", "tuples", "table, MiB", "without back level", "with", "above, ns a tuple"];
        back_cases | [(.geometry | gsub("\\*"; "\\*")), .tuples, .back_mib, (.ns_floor | fixed(0)), (.ns_switch | fixed(0)), (.ns_tuple_above_floor | fixed(1))]);

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

def flood:
    markdown(["<flood", "frames/s", "M tuples/s", "beside UDP", "sent again"];
        .rows[] | [.kind, (.flood_per_second | grouped), (.tuples_per_second / 1e6 | fixed(2)), (.beside_udp | fixed(2)),
                   (.retransmissions | grouped)]);

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

# What is wanted, and whether it was so.
def bars(rows): markdown(["<what", "<of", "measured", "wanted", "<"];
    rows | .[:4] + [if .[4] then "met" else "**not met**" end]);
def below($bar): [(. | fixed(2)), "below \($bar)", . < $bar];
def most($bar): [(. | percent(1)), "at most \($bar | percent(0))", . <= $bar];
def least($bar): [(. | fixed(2)), "at least \($bar)", . >= $bar];

def job_of($data; $senders; $way): first(.jobs[] | select(.data == $data and .senders == $senders and .way == $way));
def job_bars:
    . as $all | ([.jobs[].senders] | unique) as $senders | [.jobs[].data] | unique
    | bars((.[] as $data | $senders[] as $n | "\($data), \($n) sender\(if $n > 1 then "s" else "" end)" as $of
            | ($all | job_of($data; $n; "ask")) as $ask
            | ($all | job_of($data; $n; "noaggr")) as $plain | ($all | job_of($data; $n; "tcp")) as $tcp
            | (["machine's CPU, of TCP's and a hash table's", $of] + ($ask.machine_us_per_tuple / $tcp.machine_us_per_tuple | below(1))),
              (["wall time, of TCP's and a hash table's", $of] + ($ask.wall_seconds / $tcp.wall_seconds | below(1))),
              (["wall time, of NoAggr's", $of] + ($ask.wall_seconds / $plain.wall_seconds | below(1))),
              (["receiver's CPU, of NoAggr's", $of] + ($ask.receiver_cpu_seconds / $plain.receiver_cpu_seconds | most(0.1)))),
           (.[] as $data | select($senders | length > 1)
            | ["senders' CPU a tuple, of one sender's", "\($data), \($senders[-1]) senders"]
              + (($all | job_of($data; $senders[-1]; "ask").senders_cpu_seconds) / ($all | job_of($data; $senders[0]; "ask").senders_cpu_seconds)
                 | below(1.15))));

# Of many senders, beside the combiner that one would write without a switch.
def job_many_bars:
    . as $all | [.jobs[].senders] | unique
    | bars(.[] as $n | "\($n) senders" as $of | ($all | job_of("zipf"; $n; "ask")) as $ask | ($all | job_of("zipf"; $n; "tcp-combine")) as $tcp
           | (["receiver's CPU, of tcp-combine's", $of] + ($ask.receiver_cpu_seconds / $tcp.receiver_cpu_seconds | most(0.5))),
             (["bytes on the receiver's link", $of] + ($ask.receiver_link_bytes / $tcp.receiver_link_bytes | most(0.25))),
             (["machine's CPU", $of] + ($ask.machine_us_per_tuple / $tcp.machine_us_per_tuple | most(1))));
def job_unmerged_bars:
    . as $all
    | bars((["machine's us a tuple, nothing merged", "8 senders"] + ($all | job_of("zipf"; 8; "ask-unmerged").machine_us_per_tuple
             | [fixed(3), "at most 0.15", . <= 0.15])),
           (["million tuples/s, nothing merged", "1 sender"] + ($all | job_of("zipf"; 1; "ask-unmerged") | .tuples / .wall_seconds / 1e6
             | [fixed(1), "at least 6", . >= 6])));

# One sentence: what a user of it would have had to do without.
def job_sentence:
    ([.jobs[].senders] | max) as $n
    | job_of("zipf"; $n; "ask") as $ask | job_of("zipf"; $n; "noaggr") as $plain | job_of("zipf"; $n; "tcp") as $tcp
    | def told($name): "\(.wall_seconds | fixed(2)) s, \(.machine_us_per_tuple | fixed(3)) us a tuple, \(.receiver_link_bytes / 1e6 | fixed(1)) MB \($name)";
      "\($ask.tuples | grouped) tuples of \($n) senders (Zipf keys; wall time, CPU of all hosts, receiver's link): **\($ask | told("by ASK"))**; \($plain | told("with switch and merging off")); \($tcp | told("over TCP into a hash table")).";

def switch_of($memory; $geometry; $aggregators):
    first(.cases[] | select(.memory == $memory and .geometry == $geometry and .aggregators == $aggregators and .load == "hits"
                            and .cpus == 1 and .size == "one" and .policy == "first-come" and .floor_parts == ""));
def switch_bars:
    . as $all
    | bars((("32*1", "32*4") as $geometry | (1024, 32768) as $aggregators | "\($geometry | gsub("\\*"; "\\*")), 2^\($aggregators | exponent) aggregators an AA" as $of
            | ($all | switch_of("pipelines"; $geometry; $aggregators)) as $own | ($all | switch_of("shared"; $geometry; $aggregators)) as $shared
            | (["ns a packet, of the floor's", $of] + ($own.ratio_to_floor | [fixed(2), "at most 1.25", . <= 1.25])),
              (["compare-and-swap's ns, of a register set's a CPU", $of] + ($shared.ns_switch / $own.ns_switch | least(2)))));

def switch_back_bars:
    bars((.cases[] | select(.load == "hits" and .floor_parts == "no back level")
          | ["ns a packet of hits, of those without a back level", (.geometry | gsub("\\*"; "\\*"))] + (.ratio_to_floor | [fixed(2), "at most 1.02", . <= 1.02])),
         (back_cases | select(.geometry == "32*4") | {"1": 25, "64": 50, "512": 75, "2048": 110}[.back_mib | tostring] as $most
          | ["ns a tuple above the task without", "\(.back_mib) MiB"] + (.ns_tuple_above_floor | [fixed(1), "at most \($most)", . <= $most])));

def wire_bars:
    bars(.bars[] | [.bar, "\(.data), \(.senders) sender\(if .senders > 1 then "s" else "" end)", (.value | fixed(3)), .wanted, .met]);

# SwitchAgg's figures (bench/switchagg); reductions as the paper means them, with what is fetched counted.
def pairs_of($figure; $series): .points[] | select(.figure == $figure and .series == $series);
def loads: if . < 0.3 then "1/\(1 / . | round)" elif . < 0.75 then "1/2" else round | tostring end;
def switchagg_eq3:
    . as $all
    | markdown(["keys / places", "pairs a key", "Eq. 3", "back level", "away by", "buckets (model)", "left: back full", "left: all", "front", "C(1-e^(-N/C)) places"];
        pairs_of("eq3"; "back level") | . as $back
        | first($all | pairs_of("eq3"; "front") | select(.x == $back.x)) as $front
        | [(.x | loads), (.pairs / .keys | round), (.eq3 | percent(2)), (.reduction | percent(2)), (.reduction - .eq3 | percent(2)),
           (.eq3_kept | percent(2)), (.left_back_full | grouped), (.left | grouped), ($front.reduction | percent(2)), ($front.eq3_hashed | percent(2))]);
def switchagg_fig2a:
    markdown(["<memory", "bytes", "keys / places", "keys", "pairs", "Eq. 3", "C(1-e^(-N/C)) places", "measured", "SwitchAgg's rule (model)"];
        .points[] | select(.figure == "fig2a") | (.series == "front") as $front
        | [.series, (if $front then .front_places * 20 else .back_bytes end | grouped), (.x | loads), (.keys | grouped), (.pairs | grouped),
           (.eq3 | percent(2)), (if $front then .eq3_hashed | percent(2) else "" end), (.reduction | percent(2)),
           (if $front then .evict_model | percent(2) else "" end)]);
# A line a rule and a hash, a column a hop.
def switchagg_hops:
    markdown(["<keys", "<rule", "<hash", "hop 1", "hop 2", "hop 3", "all three, what was kept counted"];
        .hops | group_by([.exponent, .rule, .hash] | @json) | sort_by([.[0].exponent, ({"evict (model)": 0, "first come": 1}[.[0].rule] // 2), (.[0].hash == "own")])[]
        | sort_by(.hop) | . as $hops | $hops[0]
        | [(if .exponent == 0 then "uniform" else "Zipf \(.exponent | fixed(2) | ltrimstr("0"))" end),
           (if .rule == "evict (model)" then "SwitchAgg's (model)" else .rule end), (if .hash == "own" then "its own at each" else "the same" end)]
          + ($hops | map(.left_share | percent(2))) + [$hops[-1].out_share | percent(2)]);
def switchagg_fig9:
    markdown(["<keys", "<front, back", "data, GB x scale", "different, of the pairs", "1 - N/M", "reduction", "before the fetch", "SwitchAgg's rule (model), front alone"];
        .points[] | select(.figure | startswith("fig9"))
        | [(.figure | ltrimstr("fig9-")), .series, .x, (.distinct / .pairs | percent(2)), (.bound | percent(2)), (.reduction | percent(2)),
           (.reduction_before_fetch | percent(2)), (.evict_model | percent(2))]);
def switchagg_costs:
    markdown(["<what a pair meets", "pairs", "ns a pair", "seconds", "<SwitchAgg's stages", "cycles", "at 200 MHz"];
        .costs[] | [.stage, (.pairs | grouped), (.ns_pair | fixed(1)), (.seconds | fixed(3)), .paper_stage, (.paper_cycles | grouped),
                    (if .paper_seconds > 1e-3 then "\(.paper_seconds * 1e3 | fixed(2)) ms" else "\(.paper_seconds * 1e9 | round) ns" end)]);
def switchagg_way: {"ask-unmerged": "two levels", "ask-front": "front alone", "noaggr": "no switch"}[.] // .;
def switchagg_jobs:
    markdown(["data, GB x scale", "pairs", "<way", "job time, s", "CPU senders, s", "receiver, s", "machine, s", "CPUs busy", "receiver's link, MB", "ring full, of frames"];
        .jobs[] | [.gigabytes, (.tuples | grouped), (.way | switchagg_way), (.wall_seconds | fixed(2)), (.senders_cpu_seconds | fixed(2)),
                   (.receiver_cpu_seconds | fixed(2)), (.machine_busy_seconds | fixed(2)), (.utilisation | fixed(2)),
                   (.receiver_link_bytes / 1e6 | fixed(1)), (.lost_share | percent(3))]);
def switchagg_bars: markdown(["<what", "<the paper", "measured", "wanted", "<"];
    .bars[] | [.what, .paper, (.measured | percent(2)), .wanted, if .met then "met" else "**not met**" end]);

def switchagg_line($figure; $series; $name; value): {name: $name, points: [pairs_of($figure; $series) | [.x, 100 * value]]};
def switchagg_fig9_panel($keys; $title):
    "fig9-\($keys)" as $figure | . as $all
    | {title: $title, x: "data, GB x scale", unit: " %", most: 100,
       series: ([[.points[] | select(.figure == $figure) | .series] | unique_by(if startswith("S") then "S" + (.[2:] | rtrimstr("MB") | tonumber + 100 | tostring) else . end)[]
                | . as $series | $all | switchagg_line($figure; $series; $series; .reduction)]
               + [switchagg_line($figure; "M-32MB"; "1 - N/M"; .bound) + {dashed: true}])};
def switchagg_svg:
    . as $all
    | plot_svg(2;
        {title: "Eq. 3: reduction", x: "keys / places", unit: " %", most: 100,
         series: [switchagg_line("eq3"; "back level"; "back level"; .reduction), switchagg_line("eq3"; "front"; "front"; .reduction),
                  (switchagg_line("eq3"; "front"; "Eq. 3"; .eq3) + {dashed: true})]},
        {title: "Fig. 2(a): reduction", x: "keys / places", unit: " %", most: 100,
         series: [switchagg_line("fig2a"; "front"; "front"; .reduction), switchagg_line("fig2a"; "back level"; "back level"; .reduction),
                  (switchagg_line("fig2a"; "front"; "SwitchAgg's rule (model)"; .evict_model) + {dashed: true}),
                  (switchagg_line("fig2a"; "front"; "Eq. 3"; .eq3) + {dashed: true})]},
        ($all | switchagg_fig9_panel("uniform"; "Fig. 9, uniform keys: reduction, fetch counted")),
        ($all | switchagg_fig9_panel("zipf"; "Fig. 9, Zipf .99: reduction, fetch counted")));
def switchagg_jobs_panel($title; $unit; value):
    .jobs as $jobs | ([$jobs[] | value] | max) as $most
    | {title: $title, x: "data, GB x scale", unit: $unit, most: ($most | plot_most),
       series: [("ask-unmerged", "ask-front", "noaggr") as $way
                | {name: ($way | switchagg_way), points: [$jobs[] | select(.way == $way) | [.gigabytes, value]]}]};
def switchagg_jobs_svg:
    . as $all
    | plot_svg(2; ($all | switchagg_jobs_panel("Fig. 10: job time"; " s"; .wall_seconds)),
                  ($all | switchagg_jobs_panel("Receiver's CPU"; " s"; .receiver_cpu_seconds)),
                  ($all | switchagg_jobs_panel("Fig. 11: CPU, all hosts and the switch"; " s"; .machine_busy_seconds)),
                  ($all | switchagg_jobs_panel("Receiver's link"; " MB"; .receiver_link_bytes / 1e6)));

# A figure for the README: a column a measure, a bar a way.
def job_svg:
    ([.jobs[].senders] | max) as $n
    | ({ask: "ASK", noaggr: "switch and merging off", tcp: "TCP and a hash table"}) as $names
    | [("ask", "noaggr", "tcp") as $way | job_of("zipf"; $n; $way)] as $ways
    | ([{title: "wall time, s", of: "wall_seconds", by: 1, digits: 2}, {title: "CPU on all hosts, us a tuple", of: "machine_us_per_tuple", by: 1, digits: 3},
        {title: "receiver's link, MB", of: "receiver_link_bytes", by: 1e6, digits: 1}]) as $measures
    | "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 160\" font-family=\"sans-serif\" font-size=\"13\">",
      "<!-- SPDX-License-Identifier: Apache-2.0 -->",
      "<style>text{fill:#1f2328}.ask{fill:#0969da}.noaggr,.tcp{fill:#8c959f}.h{font-weight:bold}</style>",
      "<rect width=\"860\" height=\"160\" fill=\"#fff\"/>",
      "<text x=\"10\" y=\"22\">\($ways[0].tuples | grouped) tuples, \($n) senders, Zipf keys</text>",
      ($ways | to_entries[] | "<text x=\"10\" y=\"\(75 + .key * 30)\">\($names[.value.way])</text>"),
      ($measures | to_entries[] | (180 + .key * 226) as $x | .value as $m | ([$ways[][$m.of]] | max) as $most
       | "<text class=\"h\" x=\"\($x)\" y=\"48\">\($m.title)</text>",
         ($ways | to_entries[] | .value[$m.of] as $value | ($value / $most * 150 | [., 1] | max | fixed(1)) as $width
          | "<rect class=\"\(.value.way)\" x=\"\($x)\" y=\"\(61 + .key * 30)\" width=\"\($width)\" height=\"18\"/>",
            "<text x=\"\($x + ($width | tonumber) + 5 | fixed(1))\" y=\"\(75 + .key * 30)\">\($value / $m.by | if . >= 100 then grouped else fixed($m.digits) end)</text>")),
      "</svg>";

# tools/bench allreduce.
def way_name: sub("\\+$"; ", TSO");
def rate_name: if . == "none" then "free" else sub("M$"; " Mbit/s") end;
def rest($times): if $times == null then "" else $times | fixed(2) end;
def micros: if . >= 10000 then . / 1000 | "\(fixed(0)) ms" else fixed(0) end;
def allreduce:
    markdown(["MTU", "<links", "members", "<type", "<way", "MB/s", "CPU s/GB", "sent", "received", "root received", "at switch",
              "64 values, us", "p99", "barrier, us", "p99"];
        .rows[] | [.mtu, (.rate | rate_name), .members, .dtype, (.way | way_name), (.goodput_mb | fixed(1)),
                   (.cpu_seconds_per_gb | fixed(2)), (if .way | endswith("+") then "", "" else (.sent | fixed(3)), (.received | fixed(3)) end),
                   rest(.server_received // .root_received), (if .at_switch then .at_switch | percent(1) else "" end),
                   (.short_us_p50 | micros), (.short_us_p99 | micros), (.barrier_us_p50 | micros), (.barrier_us_p99 | micros)]);

def allreduce_of($row; $way): $row as $of
    | first(.rows[] | select(.way == $way and .mtu == $of.mtu and .rate == $of.rate and .members == $of.members and .dtype == $of.dtype));
# What a frame is of its values: 22 or 53 blocks of 64 bytes, and 106 of headers.
def frame_share($mtu): ((($mtu - 92) / 64 | floor) * 64) | (. + 106) / .;
def wanted($is; $bar): [(. | fixed(3)), "\($is) \($bar | fixed(2))", if $is == "at most" then . <= $bar else . >= $bar end];
def allreduce_bars:
    . as $all
    | bars($all.rows[] | select(.way == "ask" and .dtype == "int32") as $row
           | "\(.members) members, MTU \(.mtu), \(.rate | rate_name)" as $of
           | ($all | allreduce_of($row; "ring")) as $ring | ($all | allreduce_of($row; "ask-off")) as $off
           | (["bytes sent, of the vector's", $of] + (.sent | wanted("at most"; 1.03 * frame_share($row.mtu)))),
             (["bytes received", $of] + (.received | wanted("at most"; 1.03 * frame_share($row.mtu)))),
             (if .rate != "none" and .members == 8 then ["goodput, of the ring's", $of] + (.goodput_mb / $ring.goodput_mb | wanted("at least"; 1.6)) else empty end),
             (if .rate != "none" and .members == 4 then ["goodput, of the ring's", $of] + (.goodput_mb / $ring.goodput_mb | wanted("at least"; 1.35)) else empty end),
             (if .rate == "none" and .members == 8 and .mtu > 3000 then ["goodput, of the ring's", $of] + (.goodput_mb / $ring.goodput_mb | wanted("at least"; 1)) else empty end),
             (if .rate == "none" and .members == 2 then ["goodput, of the ring's", $of] + (.goodput_mb / $ring.goodput_mb | wanted("at least"; 0.5)) else empty end),
             (if .members >= 4 then ["collector's link, without the switch's", $of] + ($off.root_received / .root_received | wanted("at least"; $row.members / 2)) else empty end),
             (if .rate == "none" and .members == 8 then ["barrier, us, median", $of] + (.barrier_us_p50 | wanted("at most"; 250)) else empty end));

def allreduce_jobs:
    markdown(["slots", "jobs", "MB/s, all jobs", "sent", "received", "at switch", "of all VALUEs collided"];
        .rows[] | [(.slots | grouped), .jobs, (.goodput_mb | fixed(1)), (.sent | fixed(3)), (.received | fixed(3)), (.at_switch | percent(1)),
                   (.switch | (.value_collided // 0) / ((.value_collided // 0) + .value_taken + .value_folded + .value_result) | percent(1))]);
def allreduce_loss:
    markdown(["lost, each way of each link", "<way", "MB/s", "a sum, ms", "slowest", "sent", "received", "at switch"];
        .rows[] | ["\(.loss) %", .way, (.goodput_mb | fixed(2)), (.seconds_p50 * 1000 | fixed(0)), (.seconds_p99 * 1000 | fixed(0)), (.sent | fixed(3)),
                   (.received | fixed(3)), (if .at_switch then .at_switch | percent(1) else "" end)]);
def allreduce_training:
    markdown(["<links", "lost", "<by", "ms a step", "accuracy in the end", "steps to 95 % of the best", "seconds"];
        .rows[] | [(.rate | rate_name), "\(.loss) %", ({hook32: "ask, 32 bits", hook: "ask", gloo: "Gloo"}[.way] // .way), (.ms_a_step | fixed(1)), (.accuracy | percent(1)),
                   .steps_to_wanted, (.seconds_to_wanted | fixed(1))]);
def allreduce_late:
    markdown(["late, ms", "<way", "a sum, ms", "beyond that, ms", "sent", "received", "at switch"];
        .rows[] | [.late, .way, (.seconds_p50 * 1000 | fixed(0)), (.seconds_p50 * 1000 - .late | fixed(0)), (.sent | fixed(3)), (.received | fixed(3)),
                   (if .at_switch then .at_switch | percent(1) else "" end)]);
def bytes_name: if . == 0 then "barrier" elif . >= 1048576 then "\(. / 1048576) MiB" elif . >= 1024 then "\(. / 1024) KiB" else "\(.) B" end;
def mpi:
    (.rows | map(.rate) | unique_by({none: 0, "1G": 1, "300M": 2, "100M": 3}[.])) as $rates
    | .rows as $rows
    | markdown(["<", ($rates[] | sub("none"; "free") | sub("G$"; " Gbit/s") | sub("M$"; " Mbit/s"))];
        ($rows | map(.bytes) | unique)[] as $bytes
        | [($bytes | bytes_name),
           ($rates[] as $rate | first($rows[] | select(.bytes == $bytes and .rate == $rate)) | "\(.mpi_us_p50 | micros) / \(.ask_us_p50 | micros) = \(.mpi_us_p50 / .ask_us_p50 | fixed(2))")]);
