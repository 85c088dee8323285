// SPDX-License-Identifier: Apache-2.0
//
// What all parts of a history of tasks share.
#pragma once

#include <cstdint>

#include "tests/sim/frame/scene.h"
#include "tests/sim/tuples/job.h"
#include "tests/sim/tuples/plan.h"

namespace ask::sim {

// What a history can break (docs/simulator.md). The shrinker keeps to one.
enum class Promise : std::uint8_t {
    kNone,
    kAnswer,   // a result that is not what was sent
    kSuccess,  // told without a result
    kWait,     // somebody is told nothing
    kTask,     // a task fails though nothing died
    kCount,    // packets and counters do not agree
    kLeft,     // something is left over
    kWindow,   // a stream's window is not what its members gave to it, or is missing
    kKept,     // a member of a stream keeps more than it may
};

struct World : SceneOf<Plan, Promise> {
    using SceneOf::SceneOf;

    // When something last went on that can do so only so often: a session begins or ends, a packet is
    // acknowledged.
    Nanos moved = 0;
    std::uint64_t moved_at_event = 0;

    void moves() {
        moved = clock.now();
        moved_at_event = clock.events();
    }
    [[nodiscard]] Sleep sleep(Nanos delay) { return {clock, delay}; }
    std::uint64_t draw_u64() { return identities.next() | 1U; }
    std::uint32_t draw_u32() { return static_cast<std::uint32_t>(identities.next()) | 1U; }
};

}  // namespace ask::sim
