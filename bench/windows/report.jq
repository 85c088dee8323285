# SPDX-License-Identifier: Apache-2.0
#
# What bench/windows/run makes of its lines, one a run.

def at($p): sort | if length == 0 then null else .[((length - 1) * $p) | round] end;
def median: at(0.5);
def sum_of(f): [f] | add // 0;
def one: . * 10 | round / 10;

# Tuples a second, of all senders: from the first to the last one that was handed in.
def rate: sum_of(.send[][].tuples) * 1000 / (([.send[][].ended] | max) - ([.send[][].opened] | min));
# ms, of each window: from the last tuple until its file has its name and its senders may be told.
def latencies: [.receive, (.send | transpose)] | transpose | map(.[0].done - ([.[1][].ended] | max));
# ms by which senders stayed in a window after its time, because the next one was not there.
def late: . as $run | [.send[] | to_entries[] | .value.ended - .value.opened - $run.every];
# CPU of daemons and applications, ns; less at the mercy of what else the machine does than the rate.
def cpu_of_tuple: . as $run
    | (([$run.after | to_entries[] | select(.value | type == "object" and has("cpu")) | .value.cpu - $run.before[.key].cpu] | add) * 10 + .applications)
    * 1e6 / sum_of(.send[][].tuples);
# CPU of the daemons by kind, ticks of 10 ms.
def used: . as $run | {
    senders: sum_of($run.after | to_entries[] | select(.key | test("^h[0-9]+$")) | select(.key != "h\($run.senders + 1)") | .value.cpu - $run.before[.key].cpu),
    receiver: ($run.after["h\($run.senders + 1)"].cpu - $run.before["h\($run.senders + 1)"].cpu),
    switch: ($run.after.sw.cpu - $run.before.sw.cpu)};

def stream_line:
    "\(.name): \(.senders) senders, \(.count) windows of \(.every) ms: \(rate / 1e6 * 1000 | round / 1000) M tuples/s, machine \(.machine * 10) ms"
    + ", \(cpu_of_tuple | one) ns a tuple of applications \(.applications) ms and daemons \(used | map_values(. * 10)) ms, last tuple to file p50 \(latencies | at(0.5)) p99 \(latencies | at(0.99)) ms"
    + ", late cuts p50 \(late | at(0.5)) max \(late | max) ms";

def rest_line: "rest: \(.senders) senders: daemons \(used | map_values(. * 10)) ms in \(.seconds) s";

def nodes: . as $state | [to_entries[] | select(.key | test("^h[0-9]+$")) | .key] as $hosts | ($hosts | max_by(.[1:] | tonumber)) as $last
    | "sender \($state.h1), receiver \($state[$last]), switchd \($state.sw), switch \($state.switch), pins \($state.pins)";

def commands_line:
    "\(.name): \(.senders) senders, \(.seconds | one) s: \(.tuples / .seconds / 1e6 * 1000 | round / 1000) M tuples/s, machine \(.machine * 1e7 / .tuples | one) ns a tuple"
    + (if .kind == "task" then "" else ", \(.keys | median) keys a window, end of a window to its table p50 \(.late | at(0.5)) p99 \(.late | at(0.99)) ms"
        + ", line to committed table p50 \(.probed | at(0.5)) p99 \(.probed | at(0.99)) ms of \(.probed | length)" end);

def table:
    (.runs[] | if .kind then commands_line elif .name == "rest" then rest_line elif .send then stream_line else "window \(.at): \(.state | nodes)" end),
    ([.runs[] | select(.kind)] | {task: [.[] | select(.kind == "task")], stream: [.[] | select(.kind == "stream")]}
     | select(.task | length > 0)
     | "stream / task, of the commands, medians: \(([.stream[] | .tuples / .seconds] | median) / ([.task[] | .tuples / .seconds] | median) * 1000 | round / 10) %; by pair "
       + ([[.stream, .task] | transpose[] | (.[0].tuples / .[0].seconds) / (.[1].tuples / .[1].seconds) * 1000 | round / 10] | map(tostring) | join(" "))),
    ([.runs[] | select(.send)] | {long: [.[] | select(.name | startswith("long-"))], windows: [.[] | select(.name | startswith("windows-"))]}
     | select(.long | length > 0)
     | "windows / long, medians: \(([.windows[] | rate] | median) / ([.long[] | rate] | median) * 1000 | round / 10) %; by pair "
       + ([[.windows, .long] | transpose[] | (.[0] | rate) / (.[1] | rate) * 1000 | round / 10] | map(tostring) | join(" "))
       + "; CPU a tuple, long / windows: \(([.long[] | cpu_of_tuple] | median) / ([.windows[] | cpu_of_tuple] | median) * 1000 | round / 10) %"
       + " (\([.long[] | cpu_of_tuple] | median | one) and \([.windows[] | cpu_of_tuple] | median | one) ns)");
