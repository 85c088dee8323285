// SPDX-License-Identifier: Apache-2.0
//
// Chance of a history, in place of lib/base/random.h.
#pragma once

#include <cstdint>

#include "tests/sim/tuples/threads.h"

namespace ask {

[[nodiscard]] inline std::uint64_t random_u64() {
    return sim::draw_identity();
}
[[nodiscard]] inline std::uint32_t random_u32() {
    return static_cast<std::uint32_t>(sim::draw_identity()) | 1U;
}

}  // namespace ask
