// SPDX-License-Identifier: Apache-2.0
//
// What regions take of the SRAM that a pipeline of the paper's switch would have (design section 5): the
// switch grants against it, and the planner (lib/tuples/fit) plans with it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/abi/map_types.h"
#include "lib/tuples/types.h"

namespace ask {

// Stages of a pipeline, and register arrays a stage can hold.
inline constexpr std::uint32_t kStages = 16;
inline constexpr std::uint32_t kArraysPerStage = 4;

// Bytes of a region, both copies, in one pipeline.
[[nodiscard]] constexpr std::uint64_t region_bytes(const Geometry& geometry, std::uint32_t aggregators) {
    return std::uint64_t{geometry.aas()} * aggregators * sizeof(ask_aggregator);
}

// Bytes of the heats of a task that replaces; `aggregators` of an AA in one copy.
[[nodiscard]] constexpr std::uint64_t heat_bytes(const Geometry& geometry, std::uint32_t aggregators) {
    return (std::uint64_t{geometry.aas()} * aggregators + 7) / 8 * sizeof(ask_heats);
}

// Bytes that each flow of such a task takes for what its packets carry of others' tuples.
[[nodiscard]] constexpr std::uint64_t carried_bytes(const Geometry& geometry) {
    return std::uint64_t{ASK_WINDOW} * geometry.rows * (1 + geometry.aas()) * sizeof(std::uint64_t);
}

// Of what is free a task whose memory was planned from a sample gets at most a half, and one of which nothing
// is known an eighth: whoever comes later wants some, too.
inline constexpr std::uint64_t kPlannedPart = 2;
inline constexpr std::uint64_t kDefaultPart = 8;
// Words of the smallest region that is worth its trouble.
inline constexpr std::uint32_t kLeastRegionWords = 1U << 11U;

// Aggregators an AA, both copies, of a region that has as near to `words` as its AAs and copies allow, not
// more; 0: it cannot have any. Sizes that nobody insists on are powers of two of words, since the switch has
// a program for each of a few sizes (docs/decisions/0008-a-program-a-size.md).
[[nodiscard]] constexpr std::uint32_t aggregators_within(const Geometry& geometry, std::uint32_t copies,
                                                         std::uint64_t words) {
    const auto in_a_copy = words / geometry.aas() / copies;
    return static_cast<std::uint32_t>(std::min(in_a_copy * copies, std::uint64_t{ASK_MAX_AGGREGATORS}));
}

// Most aggregators an AA, both copies, of a region in a pipeline of `total` bytes of which `left` are free:
// each AA in one stage, all AAs in the stages. 0: the geometry's AAs do not fit.
[[nodiscard]] constexpr std::uint32_t most_aggregators(const Geometry& geometry, std::uint64_t total,
                                                       std::uint64_t left) {
    const std::uint32_t arrays = (geometry.aas() + kStages - 1) / kStages;  // of a stage
    if (arrays == 0 || arrays > kArraysPerStage) {
        return 0;
    }
    const std::uint64_t by_stage = total / kStages / arrays / sizeof(ask_aggregator);
    const std::uint64_t by_bytes = left / geometry.aas() / sizeof(ask_aggregator);
    return static_cast<std::uint32_t>(std::min({by_stage, by_bytes, std::uint64_t{ASK_MAX_AGGREGATORS}}));
}

}  // namespace ask
