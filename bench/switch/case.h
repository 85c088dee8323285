// SPDX-License-Identifier: Apache-2.0
//
// One line of the table: what the switch is given to do.
#pragma once

#include <cstdint>
#include <string>

#include "lib/abi/consts.h"
#include "lib/tuples/types.h"

namespace ask::bench {

// What the packets' tuples meet.
enum class Load : std::uint8_t {
    kHits,    // keys are a sixteenth of the aggregators, none collides: all tuples find their key
    kBlank,   // the region is blanked before each batch: nearly all tuples take an aggregator
    kMisses,  // keys are four times the aggregators: most tuples find another's
    kSeen,    // each batch comes twice, and the second time counts: nothing is aggregated
};

struct Case {
    std::uint32_t memory = ASK_MEMORY_PIPELINES;
    std::uint32_t policy = ASK_POLICY_FIRST_COME;
    Load load = Load::kHits;
    Geometry geometry;
    std::uint32_t aggregators = 1U << 15U;  // of an AA
    bool sized = true;                      // the program for the region's size, not that for any
    unsigned cpus = 1;                      // at once, each with a channel of its own

    [[nodiscard]] std::uint32_t tuples() const { return std::uint32_t{geometry.slots()} * geometry.rows; }
    // Distinct keys of a slot.
    [[nodiscard]] std::uint32_t keys() const {
        switch (load) {
            case Load::kMisses:
                return aggregators * 4;
            case Load::kBlank:
                return 1U << 24U;
            default:
                return aggregators / 16;
        }
    }
};

[[nodiscard]] inline const char* memory_name(const Case& what) {
    return what.memory == ASK_MEMORY_PIPELINES ? "pipelines" : "shared";
}
[[nodiscard]] inline const char* policy_name(const Case& what) {
    return what.policy == ASK_POLICY_REPLACE ? "replace" : "first-come";
}
[[nodiscard]] inline const char* load_name(const Case& what) {
    constexpr const char* kNames[] = {"hits", "blank", "misses", "seen"};
    return kNames[static_cast<std::size_t>(what.load)];
}
[[nodiscard]] inline const char* size_name(const Case& what) {
    return what.sized ? "one" : "any";
}
[[nodiscard]] inline std::string name_of(const Case& what) {
    return std::string(memory_name(what)) + " " + policy_name(what) + " " + load_name(what) + " " +
           to_string(what.geometry) + " " + std::to_string(what.aggregators) + " " + size_name(what);
}

}  // namespace ask::bench
