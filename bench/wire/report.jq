# SPDX-License-Identifier: Apache-2.0
#
# What bench/wire/run makes of its runs.

def median: map(select(. != null)) | sort
    | if length == 0 then null
      elif length % 2 == 1 then .[length / 2 | floor]
      else (.[length / 2 - 1] + .[length / 2]) / 2 end;

def new_packets: .stats.packets_sent - .senders;  # without the FINs

def acknowledged: .ack_times | add | map(.packets | tonumber) | add;

# Each packet was acknowledged once; the switch must have met each once, the reflector whatever was sent: else a figure
# is not what it says.
def checked:
    if acknowledged != .stats.packets_sent
    then error("\(.stats.packets_sent) packets sent, times of \(acknowledged) ACKs")
    elif .way == "wire" and .watched.packets != new_packets
       or .way == "reflector" and (.watched.packets < new_packets or
                                   .watched.packets > new_packets + .stats.retransmissions)
    then error("\(.watched.packets) packets met, \(new_packets) sent, \(.stats.retransmissions) again")
    elif .data == "back" and .way == "wire" and .stats.tuples_back < 0.99 * .stats.tuples_in
    then error("\(.stats.tuples_back) of \(.stats.tuples_in) tuples are in the back level")
    else . end;

# Least time that so many percent of the packets were faster than, in us.
def percentile($percent):
    group_by(.below_us) | map({below_us: .[0].below_us, packets: (map(.packets | tonumber) | add)})
    | (map(.packets) | add) as $all
    | reduce .[] as $bucket ({seen: 0, at: null};
        .seen += $bucket.packets
        | if .at == null and .seen >= $all * $percent / 100 then .at = $bucket.below_us else . end)
    | .at;

# CPU seconds of a node: its command and daemon, less what the kernel did for others in their time, and what it did
# for the node wherever that was.
def cpu($name):
    .watched.nodes[$name] as $node
    | (.commands[$name] // {user: 0, system: 0}) as $command
    | $command.user + $command.system + $node.daemon_seconds + $node.polls_of_devices_seconds
      - (if .charged then $node.polls_in_tasks_seconds else 0 end);

# Timing polls slows the run down: it gives CPU times or the rest, and null for the others.
def run_line($figures):
    (.stats.tuples_in / 1e6) as $millions
    | [range(1; .senders + 1) | "h\(.)"] as $sending
    | . as $run
    | {way, data, senders, tuples: .stats.tuples_in, packets: new_packets, slots_filled: .stats.slots_filled_ratio,
       answered_by_switch: (if .way == "wire" then .stats.packets_acked_by_switch / new_packets else 1 end)}
      + ({seconds: .stats.seconds, tuples_per_second: (.stats.tuples_in / .stats.seconds),
          packets_per_second: .watched.packets_per_second, retransmissions: .stats.retransmissions,
          ack_us_p50: (.ack_times | add | percentile(50)), ack_us_p99: (.ack_times | add | percentile(99))}
         | if $figures == "rates" then . else map_values(null) end)
      + ({senders_cpu: ([$sending[] as $name | $run | cpu($name)] | add / $millions),
          switch_cpu: ($run | cpu("sw") / $millions), receiver_cpu: ($run | cpu($run.receiver) / $millions)}
         | if $figures == "cpu" then . else map_values(null) end);

# One object a number of senders and way: medians over its runs, in the order of the runs.
def medians:
    [to_entries | group_by([.value.data, .value.senders, .value.way])[]
     | {at: (map(.key) | min), first: .[0].value, all: map(.value)}]
    | sort_by(.at)
    | map(. as $row
          | ($row.first | del(.run))
          + ({} | reduce ($row.first | del(.run, .way, .data, .senders, .tuples) | keys_unsorted[]) as $name
                    (.; .[$name] = ($row.all | map(.[$name]) | median))));

# What it should reach. The first: of a run's packets/s, in those of the reflector's run right after it.
def shares:
    group_by([.data, .senders])
    | map({bar: "share of the reflector's packets/s", data: .[0].data, senders: .[0].senders,
           value: (map(select(.packets_per_second)) | group_by(.run)
                   | map(map({(.way): .packets_per_second}) | add | select(.wire and .reflector) | .wire / .reflector)
                   | median),
           wanted: "at least 0.75"}
          | .met = (.value != null and .value >= 0.75));

def growth:
    medians | map(select(.way == "wire")) | group_by(.data)
    | map(sort_by(.senders) | select(length > 1)
          | {bar: "CPU a tuple at senders, against \(.[0].senders)", data: .[0].data, senders: .[-1].senders,
             value: (.[-1].senders_cpu / .[0].senders_cpu), wanted: "below 1.15"}
          | .met = (.value < 1.15));

# With nearly everything left to the back level, in hits' packets/s.
def behind:
    medians | map(select(.way == "wire")) | group_by(.senders)
    | map((map({(.data): .packets_per_second}) | add) as $rate
          | select($rate.hits and $rate.back)
          | {bar: "share of hits' packets/s", data: "back", senders: .[0].senders, value: ($rate.back / $rate.hits),
             wanted: "at least 0.6"}
          | .met = (.value >= 0.6));

def csv: (.[0] | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;

def round_to($unit): if . == null then "-" else . / $unit | round * $unit | . * 1e6 | round / 1e6 end;

def table:
    ["data", "senders", "way", "Mtuples/s", "packets/s", "by switch", "again", "ACK p50", "ACK p99", "senders", "switch",
     "receiver"],
    ["", "", "", "", "", "%", "", "us", "us", "CPU s/M", "CPU s/M", "CPU s/M"],
    (.[] | [.data, .senders, .way, (.tuples_per_second / 1e6 | round_to(0.01)), (.packets_per_second | round_to(1)),
            (.answered_by_switch * 100 | round_to(0.1)), .retransmissions, (.ack_us_p50 | round_to(0.1)),
            (.ack_us_p99 | round_to(0.1)), (.senders_cpu | round_to(0.001)), (.switch_cpu | round_to(0.001)),
            (.receiver_cpu | round_to(0.001))])
    | @tsv;

def sentence:
    "\(.data), \(.senders) senders: \(.bar): \(.value | round_to(0.001)), wanted \(.wanted): \(if .met then "met" else "NOT met" end)";
