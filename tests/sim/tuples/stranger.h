// SPDX-License-Identifier: Apache-2.0
//
// A host that is in no task. It sees what is under way, and makes the calls of those whose it is: whatever it
// tries must change nothing.
#pragma once

#include <cstdint>

#include "tests/sim/frame/random.h"
#include "tests/sim/tuples/peers.h"
#include "tests/sim/tuples/threads.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

class Stranger {
 public:
    Stranger(const Cast& cast, std::uint64_t seed) : cast_(cast), random_(seed, 5), threads_(cast.world) {}

    // Tries as often as the plan says.
    void start();
    void kill() { threads_.kill(); }

 private:
    [[nodiscard]] int some_of(int all);
    void try_something();
    void take_task(SimSwitch& at, const v1::SwitchTask& task, const v1::SwitchStatus& seen);
    void take_channel(SimSwitch& at, const v1::SwitchChannel& channel);

    Cast cast_;
    Random random_;
    Threads threads_;
};

}  // namespace ask::sim
