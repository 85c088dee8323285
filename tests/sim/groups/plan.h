// SPDX-License-Identifier: Apache-2.0
//
// What a history of groups is made of: a flat list of numbers, drawn from a seed, printed and overridden by
// name. The shrinker makes them smaller one by one.
#pragma once

#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "tests/sim/frame/numbers.h"

namespace ask::sim::groups {

// X(name, what it is). Rates are in millionths a frame, run or access; times in microseconds unless it says
// so.
#define ASK_GROUPS_PLAN(X)                                                                        \
    X(jobs, "groups, begun side by side as far as switches have tasks for them")                  \
    X(hosts, "hosts, each in any number of groups")                                               \
    X(switches, "switches in a full mesh, each with its share of the hosts")                      \
    X(levels, "1: a group is open at its collector's switch; 2: at each that members are behind") \
    X(tasks, "groups that a switch can have open")                                                \
    X(members, "of each group")                                                                   \
    X(operations, "of each group")                                                                \
    X(depth, "operations that a member has under way")                                            \
    X(values, "most values of an operation")                                                      \
    X(kind, "0 sums of integers, 1 all of integers, 2 floats too, 3 all kinds, NaN and infinity") \
    X(window, "chunks of a stream under way")                                                     \
    X(streams, "streams of values")                                                               \
    X(blocks, "most of a payload")                                                                \
    X(pool, "slots of a switch, which all groups share: a power of two; 0: none")                 \
    X(fan, "results: 0 to each alone, 1 to all by the collector, 2 to all by the last switch")    \
    X(through, "1: the collector's own values go out by its switch")                              \
    X(cpus, "of each switch")                                                                     \
    X(steering, "0 a channel's packets on one CPU, 1 on any")                                     \
    X(pause, "chance of a run to be suspended before an access")                                  \
    X(stall, "longest suspension")                                                                \
    X(loss, "frames lost, on each link")                                                          \
    X(duplicate, "frames that come twice")                                                        \
    X(damage, "frames with flipped bits or cut short")                                            \
    X(jitter, "most delay beyond the shortest")                                                   \
    X(straggle, "frames that are delayed by several windows")                                     \
    X(replay, "frames that come again much later")                                                \
    X(bypass, "frames of a host that find a way round the switches")                              \
    X(congestion, "frames that are marked by ECN")                                                \
    X(forge, "frames after which one is sent that is changed and not sealed")                     \
    X(rogue, "frames of a member after which it sends one of a set that is not its own")          \
    X(reroutes, "times that a host's packets all go round the switches for a while")              \
    X(wipe, "runs after which slots are emptied or held by their owner, a daemon")                \
    X(replacements, "times that a switch's maps are replaced: all of them empty")                 \
    X(skew, "most that a member begins late, ms")                                                 \
    X(idle, "most that an application waits between operations, ms")                              \
    X(stops, "times that a host stands still, up to 300 ms")                                      \
    X(deaths, "hosts that die")                                                                   \
    X(deadline, "after which a chunk without a result ends its group, ms; 0: never")              \
    X(six, "1: hosts have IPv6")                                                                  \
    X(broken, "what must be found out: 1 a value that changes, 2 a member that never answers")

struct Plan {
#define ASK_X(name, what) std::uint32_t name = 0;
    ASK_GROUPS_PLAN(ASK_X)
#undef ASK_X

    static std::span<const Field<Plan>> fields();
};

// The history of a seed.
Plan draw_plan(std::uint64_t seed);
// Whether a history can be made of it: kUsage says what it needs.
Result<> check_plan(const Plan& plan);

}  // namespace ask::sim::groups
