// SPDX-License-Identifier: Apache-2.0
//
// The header of this name, for the simulator: its clock (tests/sim/tuples/threads.h).
#pragma once

#include <cstdint>

#include "tests/sim/tuples/descriptors.h"
#include "tests/sim/tuples/threads.h"

namespace ask {

namespace sim {
// What the receiver's clock shows when a history begins.
constexpr std::int64_t kUnixEpochMs = 1'700'000'000'000;
}  // namespace sim

[[nodiscard]] inline std::int64_t unix_ms() {
    constexpr std::int64_t kNanosInMs = 1'000'000;
    return sim::kUnixEpochMs + sim::sim_now() / kNanosInMs + sim::clock_ms();
}

}  // namespace ask
