// SPDX-License-Identifier: Apache-2.0
//
// The time of day, for what is named after it. It may be set, back and forth; whoever waits uses Clock. The
// simulator has a header of this name that tells its own time (tests/sim/tuples/shadow).
#pragma once

#include <chrono>
#include <cstdint>

namespace ask {

// Milliseconds since 1970, UTC.
[[nodiscard]] inline std::int64_t unix_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace ask
