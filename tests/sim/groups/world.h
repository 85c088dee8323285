// SPDX-License-Identifier: Apache-2.0
//
// What all parts of a history of groups share.
#pragma once

#include <cstdint>

#include "tests/sim/frame/scene.h"
#include "tests/sim/groups/plan.h"

namespace ask::sim::groups {

// What a history can break (docs/simulator.md). The shrinker keeps to one.
enum class Promise : std::uint8_t {
    kNone,
    kFold,    // a slot, packet or result is not the fold of its set
    kAnswer,  // an application's result is not what its members gave
    kWait,    // somebody is told nothing, or a group that nothing befell does not end
    kName,    // a group ends without naming who is missing, or for no reason
    kRound,   // all have sent their values alone, and the chunk is not complete
    kCount,   // packets and counters do not agree, or something is not bounded
};

struct World : SceneOf<Plan, Promise> {
    using SceneOf::SceneOf;

    Nanos moved = 0;  // when a member last had a result

    // Any time up to `most`, as likely a short one as a long one.
    [[nodiscard]] Nanos any_time(Nanos most) { return most >> control.below(12); }
};

}  // namespace ask::sim::groups
