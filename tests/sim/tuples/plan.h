// SPDX-License-Identifier: Apache-2.0
//
// What a history is made of: a flat list of numbers, drawn from a seed, printed and overridden by name. The
// shrinker makes them smaller one by one.
#pragma once

#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/tuples/types.h"
#include "tests/sim/frame/numbers.h"

namespace ask::sim {

// X(name, what it is). Rates are in millionths a frame or access, times in microseconds.
#define ASK_SIM_PLAN(X)                                                                               \
    X(hosts, "hosts in all")                                                                          \
    X(switches, "switches, each with its share of the hosts, in a full mesh")                         \
    X(tasks, "tasks, one after another at each receiver and all receivers at once")                   \
    X(receivers, "hosts that receive: tenants")                                                       \
    X(senders, "senders of each task")                                                                \
    X(channels, "data channels of a host")                                                            \
    X(workers, "of a host's agent")                                                                   \
    X(local, "1: of a task, a sender may be on the receiver's own host")                              \
    X(tuples, "tuples of each sender")                                                                \
    X(keys, "distinct keys")                                                                          \
    X(key_kind,                                                                                       \
      "0 short, 1 short and medium, 2 all forms, 3 also longer than a packet, 4 of any length to 70") \
    X(value_kind,                                                                                     \
      "0 small, 1 around the limits of int32, 2 also far beyond, 3 up to those of 63 bits and more")  \
    X(op, "enum ask_wire_op")                                                                         \
    X(short_slots, "geometry")                                                                        \
    X(groups, "geometry")                                                                             \
    X(m, "geometry")                                                                                  \
    X(rows, "geometry")                                                                               \
    X(aggregators, "of an AA in one copy; 0: no region")                                              \
    X(copies, "1, or 2 if tasks swap")                                                                \
    X(policy, "enum ask_policy")                                                                      \
    X(memory, "enum ask_memory")                                                                      \
    X(dedupe, "enum ask_dedupe")                                                                      \
    X(cpus, "of each switch")                                                                         \
    X(steering, "0 a channel's packets on one CPU, 1 on any")                                         \
    X(merge, "1: senders merge equal keys")                                                           \
    X(hold, "tuples held back by a sender")                                                           \
    X(pace, "pause of an application between bursts of tuples, us")                                   \
    X(idle, "one longer pause of each sender in the middle of its tuples, ms")                        \
    X(dawdle, "time that an application takes to take its result, ms")                                \
    X(quits, "applications of a hundred that go away in the middle")                                  \
    X(incomplete, "1: tasks go on without senders that die")                                          \
    X(own, "1: each sender's own switch aggregates, 0: the receiver's")                               \
    X(fit, "1: the geometry is chosen from samples of the senders' keys")                             \
    X(swap_packets, "a swap every so many packets; 0: adaptive")                                      \
    X(pause, "chance of a run to be suspended before an access")                                      \
    X(stall, "longest suspension, us")                                                                \
    X(loss, "frames lost")                                                                            \
    X(duplicate, "frames that come twice")                                                            \
    X(damage, "frames with flipped bits or cut short")                                                \
    X(jitter, "most delay beyond the shortest, us")                                                   \
    X(straggle, "frames that are delayed by several windows")                                         \
    X(replay, "frames that come again much later, maybe after their task")                            \
    X(bypass, "frames of a host that find a way round the switches")                                  \
    X(congestion, "frames that are marked by ECN")                                                    \
    X(forge, "frames after which a forged one is sent")                                               \
    X(call_loss, "control calls or their answers that get lost")                                      \
    X(call_delay, "most delay of a control call, us")                                                 \
    X(partitions, "cuts of a host's link, shorter than the deadline")                                 \
    X(reroutes, "times that a host's packets all go round the switch for a while")                    \
    X(switchd_deaths, "kill -9 and restart of ask-switchd, between any two of its steps")             \
    X(late, "time after which ask-switchd is first started, ms")                                      \
    X(switchd_stops, "times that ask-switchd is stopped, up to several leases")                       \
    X(agent_stops, "times that an agent is stopped, up to half a deadline")                           \
    X(reboots, "reboots of a switch: its maps are gone")                                              \
    X(sender_deaths, "deaths of a sender's agent")                                                    \
    X(receiver_deaths, "deaths of a receiver's agent")                                                \
    X(rcu_only, "1: a swap waits for a grace period")                                                 \
    X(stranger, "calls of others' that a host makes which is in no task")                             \
    X(intruder, "attacks by somebody who may call as any host")                                       \
    X(back_kib, "memory of a switch for back levels; 0: none")                                        \
    X(packet_rate, "packets a second of one receiver's tasks; 0: no limit")                           \
    X(relays, "hosts beside switches that relay tasks; 0: none")                                      \
    X(relay_room, "tasks that one of them takes at a time; 0: as shipped")                            \
    X(relay_deaths, "deaths of a relay, its agent, or both")                                          \
    X(relay_stops, "times that a relay is stopped, up to a deadline")                                 \
    X(relay_hangs, "times that a relay or its agent is stopped for good")                             \
    X(relay_part, "KiB of a relay's table that is sent on as a part; 0: all at the end")              \
    X(count, "1: tasks count")                                                                        \
    X(far, "1: sums of one key leave int64 on the way")                                               \
    X(windows, "seconds, and so windows, of a stream in place of tasks; 0: there is none")            \
    X(with_state, "members of a hundred that outlive their process")                                  \
    X(late_members, "that come while the stream runs")                                                \
    X(recv_deaths, "deaths of the ask-recv of a stream")                                              \
    X(send_deaths, "deaths of an ask-send of a stream")                                               \
    X(spool_kib, "of each member; 0: as shipped")                                                     \
    X(clocks, "by how much hosts' clocks may differ from the receiver's, ms")                         \
    X(six, "1: hosts have IPv6")                                                                      \
    X(deadline, "of tasks, ms")                                                                       \
    X(broken, "what must be found out: receivers 1 merge twice, 2 wait, 3 do one or other")

struct Plan {
#define ASK_X(name, what) std::uint32_t name = 0;
    ASK_SIM_PLAN(ASK_X)
#undef ASK_X

    static std::span<const Field<Plan>> fields();

    // Relays come behind the others.
    [[nodiscard]] std::uint32_t nodes() const { return hosts + relays; }

    [[nodiscard]] Geometry geometry() const {
        return {static_cast<std::uint8_t>(short_slots), static_cast<std::uint8_t>(groups),
                static_cast<std::uint8_t>(m), static_cast<std::uint8_t>(rows)};
    }
    [[nodiscard]] bool merges_twice() const { return broken == 1 || (broken == 3 && tuples <= 10); }
    [[nodiscard]] bool waits_for_ever() const { return broken == 2 || (broken == 3 && tuples > 10); }
    // Whether something dies, so that tasks may fail. An agent that is stopped for half the deadline has no
    // time left to wait for a switch (docs/deaths.md), and a placed task asks switches in any case.
    [[nodiscard]] bool deadly() const {
        return switchd_stops + reboots + sender_deaths + receiver_deaths + quits + intruder + relay_deaths +
                       relay_stops + relay_hangs >
                   0 ||
               dawdle >= deadline ||
               (aggregators + relays > 0 && (late > 0 || (agent_stops > 0 && switchd_deaths > 0)));
    }
    // Whether a switch must still have what its receiver renews.
    [[nodiscard]] bool keeps_tasks() const {
        return reboots + receiver_deaths + agent_stops + partitions + call_loss + intruder + relay_deaths +
                   relay_stops + relay_hangs ==
               0;
    }
};

// kWindows: streams, of as few members as kTiny.
enum class Size : std::uint8_t { kTiny, kSmall, kLarge, kWindows };

// The history of a seed.
Plan draw_plan(std::uint64_t seed, Size size);
// Whether a history can be made of it: kUsage says what it needs.
Result<> check_plan(const Plan& plan);

}  // namespace ask::sim
