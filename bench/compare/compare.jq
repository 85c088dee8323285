# SPDX-License-Identifier: Apache-2.0
#
# What two commits' rounds of a bench say: medians of each, and whether the difference is more than the rounds' own.

# What tells two lines of a case's results apart, and what is measured.
def cases: {
    switch: {file: "switch.json", lines: "cases", targets: ["ask-bench-switch"],
             id: ["memory", "policy", "load", "geometry", "aggregators", "cpus", "floor_parts"],
             metrics: ["ns_switch", "ratio_to_floor"]},
    job: {file: "job.json", lines: "jobs",
          targets: ["ask-bench-job", "ask-bench-tool", "ask-send", "ask-recv", "ask-agentd", "ask-switchd", "askctl"],
          id: ["way", "data", "senders"],
          metrics: ["wall_seconds", "senders_cpu_seconds", "receiver_cpu_seconds"]}
};

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

def rounded: if . >= 100 then round else . * 1000 | round / 1000 end;

# Fewer rounds than these of each side, and chance alone puts all of one beyond all of the other too often: four make it
# one in 35 either way.
def rounds_to_tell: 4;

# Whether $more is beyond $less: by the tolerance, and every round of the one beyond every round of the other.
def beyond($more; $less; $tolerance):
    ($more | length) >= rounds_to_tell and ($less | length) >= rounds_to_tell
    and ($more | median) > (1 + $tolerance) * ($less | median) and ($more | min) > ($less | max);

# Input: lines {side, result} of all rounds.
def compared($case; $tolerance):
    cases[$case] as $what
    | [.[] | .side as $side | .result[$what.lines][]
       | . as $line | $what.metrics[]
       | {side: $side, metric: ., id: ([$what.id[] | $line[.] | tostring] | join(" ")), value: $line[.]}]
    | group_by([.id, .metric])
    | map({id: .[0].id, metric: .[0].metric,
           old: [.[] | select(.side == "old") | .value], new: [.[] | select(.side == "new") | .value]}
          | select((.old | length) > 0 and (.new | length) > 0 and (.old | median) > 0)
          | {id, metric, old: (.old | median), new: (.new | median), ratio: ((.new | median) / (.old | median)),
             verdict: (if beyond(.new; .old; $tolerance) then "slower"
                       elif beyond(.old; .new; $tolerance) then "faster" else "" end)});

def table: (["CASE", "WHAT", "OLD", "NEW", "NEW/OLD", ""] | @tsv),
    (.[] | [.id, .metric, (.old | rounded), (.new | rounded), (.ratio * 1000 | round / 1000), .verdict] | @tsv);
