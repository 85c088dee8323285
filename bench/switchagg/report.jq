# SPDX-License-Identifier: Apache-2.0
#
# What bench/switchagg/run makes of what was measured: figures beside SwitchAgg's values, and whether these were met.

def of($figure; $series): [.points[] | select(.figure == $figure and .series == $series)];
def worst(value): if length == 0 then null else map(value) | max end;
def least(value): if length == 0 then null else map(value) | min end;
def away: .reduction - .eq3 | fabs;

# A bar: what, the paper's value, ours, what is wanted of it, whether it is so. Nothing where nothing was measured.
def bar($what; $paper; $value; $wanted; $met):
    if $value == null then empty else {what: $what, paper: $paper, measured: $value, wanted: $wanted, met: $met} end;
def as_percent: . * 100000 | round / 1000 | "\(.) %";
def below($what; $paper; $value; $limit): bar($what; $paper; $value; "below \($limit | as_percent)"; $value < $limit);
def above($what; $paper; $value; $limit): bar($what; $paper; $value; "at least \($limit | as_percent)"; $value >= $limit);
def within($what; $paper; $value; $limit): bar($what; $paper; $value; "within \($limit | as_percent)"; $value <= $limit);

def eq3_bars:
    of("eq3"; "back level") as $back | of("eq3"; "front") as $front
    | within("Eq. 3, back level, keys to half its places: away by"; "1 - N/M"; $back | map(select(.x <= 0.5)) | worst(away); 0.01),
      within("Eq. 3, back level, as many keys as places: away by"; "1 - N/M"; $back | map(select(.x == 1)) | worst(away); 0.01),
      within("Eq. 3, back level, C(N) places that keys find in buckets (model): away by"; "C/N - C/M"; $back | worst(.reduction - .eq3_kept | fabs); 0.01),
      within("Eq. 3, back level, more keys than places: away by"; "C/N - C/M"; $back | map(select(.x > 1)) | worst(away); 0.01),
      within("Eq. 3, front, a place a key by its hash, C(1 - e^(-N/C)) places found: away by"; "C/N - C/M";
             $front | worst(.reduction - .eq3_hashed | fabs); 0.01);

def fig2a_bars:
    of("fig2a"; "front") as $front
    | above("Fig. 2(a), keys are a quarter of the places and less"; "above 80 %"; $front | map(select(.x <= 0.25)) | least(.reduction); 0.8),
      above("Fig. 2(a), keys are as many as the places, in a back level of so many"; "above 80 %";
            of("fig2a"; "back level") | map(select(.x > 0.9 and .x < 1.1)) | least(.reduction); 0.8),
      above("Fig. 2(a), keys are as many as the places"; "above 80 %"; $front | map(select(.x > 0.9 and .x < 1.1)) | least(.reduction); 0.8),
      below("Fig. 2(a), ten times as many"; "below 10 %"; $front | map(select(.x > 9 and .x < 11)) | worst(.reduction); 0.1),
      below("Fig. 2(a), 4 G keys x scale"; "below 1 %"; $front | map(select(.x > 101)) | worst(.reduction); 0.01);

# What is let out before the end, of all pairs, by hop.
def hops_of($rule; $hash; $exponent):
    [.hops[] | select(.rule == $rule and .hash == $hash and .exponent == $exponent)] | sort_by(.hop) | map(.left_share);
def least_and_most: if length == 0 then null else max - min end;
def gained: if length == 0 then null else first - last end;
def fig2b_bars:
    hops_of("evict (model)"; "same"; 0) as $flat | hops_of("evict (model)"; "own"; 0) as $own
    | hops_of("first come"; "same"; 0) as $first
    | below("Fig. 2(b), uniform, evict, one hash: three hops let out less than one by"; "no gain"; $flat | least_and_most; 0.01),
      above("Fig. 2(b), uniform, evict, a hash a hop: three hops let out less than one by"; "no gain"; $own | gained; 0.05),
      above("Fig. 2(b), uniform, first come: three hops let out less than one by"; "no gain"; $first | gained; 0.2);

def front_of($figure): [.points[] | select(.figure == $figure and (.series | startswith("S-")))];
def two_of($figure): [.points[] | select(.figure == $figure and (.series | startswith("M-")))];
def fig9_bars:
    front_of("fig9-uniform") as $uniform
    | below("Fig. 9, uniform, front alone, to 16 MB"; "below 5 %"; $uniform | map(select(.series != "S-32MB")) | worst(.reduction); 0.05),
      below("Fig. 9, uniform, front alone, 32 MB"; "below 10 %"; $uniform | map(select(.series == "S-32MB")) | worst(.reduction); 0.1),
      (("uniform", "zipf") as $keys | two_of("fig9-\($keys)")
       | map(select(.series | contains("few") | not)) as $all | map(select(.series | contains("few"))) as $few
       | above("Fig. 9, \($keys), two levels, before the fetch"; if $keys == "zipf" then "99 % or higher" else "rising" end;
               $all | least(.reduction_before_fetch); 0.99),
         within("Fig. 9, \($keys), two levels, fetch counted: away from 1 - N/M by"; "not told apart";
                $all | worst(.bound - .reduction | fabs); 0.01),
         above("Fig. 9, \($keys), two levels, fetch counted, different keys 0.5 % of the pairs at most"; "99 % or higher";
               $few | map(select(.distinct <= 0.005 * .pairs)) | least(.reduction); 0.99));

def job($jobs; $gb; $way): first($jobs[] | select(.gigabytes == $gb and .way == $way));
def jobs_bars:
    .jobs as $jobs | if $jobs == [] then empty else
      ($jobs | map(.gigabytes) | max) as $most | job($jobs; $most; "noaggr") as $plain
      | ([["ask-unmerged", "two levels"], ["ask-front", "front alone"]][] as [$way, $name]
         | job($jobs; $most; $way) as $job
         | below("Fig. 10, \($most) GB x scale, \($name): job time, of that without a switch";
                 if $way == "ask-unmerged" then "about 50 %" else "" end; $job.wall_seconds / $plain.wall_seconds; 0.5),
           below("Fig. 11, \($most) GB x scale, \($name): receiver's CPU, of that without a switch"; "less";
                 $job.receiver_cpu_seconds / $plain.receiver_cpu_seconds; 1),
           below("Fig. 11, \($most) GB x scale, \($name): all CPU, of that without a switch"; "less";
                 $job.machine_busy_seconds / $plain.machine_busy_seconds; 1)),
        below("Table 2, two levels: frames that a full ring lost"; "0.028 to 0.044 %";
              $jobs | map(select(.way == "ask-unmerged") | .lost_share) | max; 0.00044)
    end;

def document($jobs; $scale):
    . + {job_scale: $scale,
         how: "eq3, fig2, fig9, costs: the switch program and its controller, fed by BPF_PROG_TEST_RUN; jobs: tools/lab, real daemons",
         jobs: ($jobs | map(. + {lost_share: (if .ring_frames == 0 then 0 else .ring_lost / .ring_frames end),
                                 utilisation: (.machine_busy_seconds / .wall_seconds)}))}
    | . + {bars: [eq3_bars, fig2a_bars, fig2b_bars, fig9_bars, jobs_bars]};

def way_name: {"ask-unmerged": "two levels", "ask-front": "front alone", "noaggr": "no switch"}[.] // .;
def fig10_title: "Fig. 10: job completion time";
def fig10_unit: "s";
def fig10_curves: .jobs | sort_by(.way)[] | [(.way | way_name), .gigabytes, .wall_seconds] | @tsv;
def fig11_title: "Fig. 11: CPU, all hosts and the switch";
def fig11_unit: "CPUs busy, mean";
def fig11_curves: .jobs | sort_by(.way)[] | [(.way | way_name), .gigabytes, .utilisation] | @tsv;

def csv: (.[0] | keys_unsorted) as $columns | $columns, (.[] | [.[$columns[]]]) | @csv;
def round_to($unit): . / $unit | round * $unit;
def percent: . * 10000 | round / 100 | "\(.) %";
def jobs_table:
    ["GB x scale", "way", "job time, s", "CPU senders, s", "CPU receiver, s", "machine, s", "CPUs busy", "link, MB", "ring lost"],
    (.jobs[] | [.gigabytes, (.way | way_name), .wall_seconds, .senders_cpu_seconds, .receiver_cpu_seconds, .machine_busy_seconds,
                .utilisation, .receiver_link_bytes / 1e6, .lost_share * 100]
     | map(if type == "number" then . * 1000 | round / 1000 else . end))
    | @tsv;
def bars_table:
    ["what", "the paper", "measured", "wanted", ""],
    (.bars[] | [.what, .paper, (.measured | percent), .wanted, if .met then "met" else "NOT MET" end])
    | @tsv;
