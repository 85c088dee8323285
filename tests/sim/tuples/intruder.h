// SPDX-License-Identifier: Apache-2.0
//
// Somebody who may do whatever the members of the tasks may: a host that was broken into, a network without
// TLS. Tasks may fail of what it does, but none may end with an answer that is not what was sent.
#pragma once

#include <cstdint>

#include "tests/sim/frame/random.h"
#include "tests/sim/tuples/peers.h"
#include "tests/sim/tuples/threads.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

class Intruder {
 public:
    Intruder(const Cast& cast, std::uint64_t seed) : cast_(cast), random_(seed, 6), threads_(cast.world) {}

    // Tries as often as the plan says.
    void start();
    void kill() { threads_.kill(); }

 private:
    // A task that is open at a switch, and what else is to be seen there.
    struct Target {
        std::uint32_t number = 0;  // of the switch
        v1::SwitchTask task;
        std::uint32_t receiver = 0;  // host
        v1::SwitchStatus seen;
    };

    [[nodiscard]] int some_of(int all);
    void intrude();
    void make_anew(const Target& target);
    void take_channels_away(const Target& target);
    void add_flow(const Target& target);
    void take_flow_over(const Target& target);
    [[nodiscard]] SimSwitch at(const Target& target, std::uint32_t as_host);
    void send_tuple(const Target& target, ChannelId channel, std::uint32_t incarnation);

    Cast cast_;
    Random random_;
    Threads threads_;
};

}  // namespace ask::sim
