// SPDX-License-Identifier: Apache-2.0
//
// The header of this name, for the simulator: its clock (tests/sim/tuples/threads.h).
#pragma once

#include <cstdint>

#include "tests/sim/tuples/descriptors.h"
#include "tests/sim/tuples/threads.h"

namespace ask {

[[nodiscard]] inline std::int64_t unix_ms() {
    constexpr std::int64_t kEpoch = 1'700'000'000'000;
    constexpr std::int64_t kNanosInMs = 1'000'000;
    return kEpoch + sim::sim_now() / kNanosInMs + sim::clock_ms();
}

}  // namespace ask
