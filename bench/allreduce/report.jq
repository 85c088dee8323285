# SPDX-License-Identifier: Apache-2.0
#
# What bench/allreduce/run makes of what members report, and of its lines, one a turn of a way.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
# The smallest that so large a share is not above.
def quantile($share): sort | .[[(length * $share | ceil) - 1, 0] | max];

# Chunks of a sum, those of its exponents too (lib/values/operation.h).
def chunks($count; $dtype; $way; $mtu):
    ((($mtu - 28 - 64) / 64 | floor) * 64) as $body
    | ($count / ($body / (if $dtype == "int32" or $way == "ask-32" then 4 else 8 end)) | ceil) as $values
    | $values + (if $dtype | startswith("float") then $values / ($body / 8) | ceil else 0 end);

# Of all sums and barriers of a group's.
def all_chunks: (.runs + 1) * chunks(.count; .dtype; .way; .mtu) + (.runs + 2 + .shorts) * chunks(64; .dtype; .way; .mtu) + .shorts;

# The jobs' members' reports to one line.
def line($how; $before; $after):
    map(select(.members)) as $jobs | map(.server // empty) as $servers
    | if ($jobs | length) != $how.jobs or any($jobs[]; (.members | length) != $how.members) then error("reports: \($jobs | map(.members | length))") else . end
    | ($after | with_entries(.value -= $before[.key])) as $switch
    | ($how | all_chunks * .jobs) as $chunks
    | def links($way): [$jobs[].members[1:][].link[$way].bytes / $how.runs / $jobs[0].members[0].bytes] | median;
      def root($way): [$jobs[].members[0].link[$way].bytes / $how.runs / $jobs[0].members[0].bytes] | median;
      $how + {
        bytes: $jobs[0].members[0].bytes,
        # Of each job's runs: its slowest member's.
        seconds: [$jobs[] | [.members[].seconds] | transpose | map(max)],
        short: [$jobs[].members[].short[]], barrier: [$jobs[].members[].barrier[]],
        machine: ([$jobs[].members[].machine] | max), user: ([$jobs[].members[].user] | add), system: ([$jobs[].members[].system] | add),
        sent: links("sent"), received: links("received"), root_sent: root("sent"), root_received: root("received"),
        server_sent: ($servers | if . == [] then null else map(.link.sent.bytes / $how.runs / $jobs[0].members[0].bytes) | median end),
        server_received: ($servers | if . == [] then null else map(.link.received.bytes / $how.runs / $jobs[0].members[0].bytes) | median end),
        packets_sent: ([$jobs[].members[].link.sent.packets] | add), packets_received: ([$jobs[].members[].link.received.packets] | add),
        at_switch: (if $how.way | IN("ask", "ask-32", "ask-flush") then $switch.value_result / $chunks else null end),
        switch: (if $how.way | startswith("ask") then $switch else null end),
        note: $jobs[0].members[0].note};

def us: . * 1e7 | round / 10;
def key: [.part, .mtu, .rate, .members, .dtype, .jobs, .slots, .loss, .late];

# One object a setting and way: over all its turns.
def rows:
    [to_entries | group_by(.value | key + [.way])[] | {at: (map(.key) | min), all: map(.value)}] | sort_by(.at)
    | map(.all | . as $turns | .[0] as $first
          | ($first | {part, way, members, dtype, mtu, rate, jobs, slots, loss, late, bytes, note})
          + ([$turns[].seconds[][]] | {seconds_p50: median, seconds_p99: quantile(0.99)})
          # Of all jobs together.
          + {goodput_mb: ([$turns[] | [.seconds[] | $first.bytes / median] | add] | median / 1e6),
             cpu_seconds_per_gb: ([$turns[] | .machine / (.bytes * .members * .runs * .jobs / 1e9)] | median)}
          + ({} | reduce ("sent", "received", "root_sent", "root_received", "server_sent", "server_received", "at_switch") as $name
                    (.; .[$name] = ([$turns[][$name] | values] | if . == [] then null else median end)))
          + {short_us_p50: ([$turns[].short[]] | median | us), short_us_p99: ([$turns[].short[]] | quantile(0.99) | us),
             barrier_us_p50: ([$turns[].barrier[]] | median | us), barrier_us_p99: ([$turns[].barrier[]] | quantile(0.99) | us)}
          + {switch: ($first.switch | if . then with_entries(select(.value > 0)) else null end)});

def csv: (.[0] | del(.switch, .curve) | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;

def fixed($digits): pow(10; $digits) as $unit | if . == null then "" else . * $unit | round / $unit end;
def table:
    ["members", "mtu", "rate", "dtype", "jobs", "slots", "loss %", "late", "way", "MB/s", "ms p50", "p99", "CPU s/GB", "sent", "received", "root sent", "received",
     "at switch", "64: us p50", "p99", "barrier: us p50", "p99"],
    (.[] | [.members, .mtu, .rate, .dtype, .jobs, .slots, .loss, .late, .way, (.goodput_mb | fixed(1)), (.seconds_p50 * 1000 | fixed(1)),
            (.seconds_p99 * 1000 | fixed(1)), (.cpu_seconds_per_gb | fixed(2)), (.sent | fixed(3)), (.received | fixed(3)),
            (.root_sent | fixed(3)), (.root_received | fixed(3)), (.at_switch | fixed(3)), .short_us_p50, .short_us_p99,
            .barrier_us_p50, .barrier_us_p99])
    | @tsv;

# Trainings: how long it took to 95 % of the accuracy that the best of its setting came to.
def trainings:
    group_by([.mtu, .rate, .members, .loss])
    | map((map(.curve[-1][2]) | max) as $best
          | .[] | (0.95 * $best) as $wanted | first(.curve[] | select(.[2] >= $wanted)) as $at
          | {part, way, members, mtu, rate, loss, hidden, steps: .curve[-1][0], ms_a_step: (.curve[-1][1] * 1000 / .curve[-1][0]),
             accuracy: .curve[-1][2], $wanted, steps_to_wanted: $at[0], seconds_to_wanted: $at[1], curve});
def training_table:
    ["workers", "mtu", "rate", "loss %", "way", "steps", "ms a step", "accuracy", "95 % of the best: steps", "seconds"],
    (.[] | [.members, .mtu, .rate, .loss, .way, .steps, (.ms_a_step | fixed(1)), (.accuracy | fixed(4)), .steps_to_wanted, (.seconds_to_wanted | fixed(2))])
    | @tsv;
