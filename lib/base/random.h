// SPDX-License-Identifier: Apache-2.0
//
// Chance, as the control plane draws it: what nobody guesses, and nothing ever has twice. The simulator has a
// header of this name that draws from a history's seed (tests/sim/shadow).
#pragma once

#include <sys/random.h>
#include <sys/types.h>

#include <cstdint>
#include <cstdlib>

namespace ask {

// 64 random bits from the kernel, never 0.
[[nodiscard]] inline std::uint64_t random_u64() {
    std::uint64_t value = 0;
    while (value == 0) {
        // Cannot fail for so few bytes once the kernel has booted.
        if (::getrandom(&value, sizeof(value), 0) != static_cast<ssize_t>(sizeof(value))) {
            std::abort();
        }
    }
    return value;
}

[[nodiscard]] inline std::uint32_t random_u32() {
    std::uint32_t value = 0;
    while (value == 0) {
        value = static_cast<std::uint32_t>(random_u64());
    }
    return value;
}

}  // namespace ask
