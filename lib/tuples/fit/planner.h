// SPDX-License-Identifier: Apache-2.0
//
// Chooses a task's geometry, its memory on the switch and its slot map from a sample of its keys: for what is
// left of them after merging (merging.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/slot_map.h"
#include "lib/tuples/types.h"

namespace ask {

struct PlanLimits {
    std::uint32_t payload_limit = 1472;  // longest UDP payload
    std::uint64_t sram_total = 0;        // bytes of a switch's pipeline; 0: no switch, or none that says
    std::uint64_t sram_left = 0;         // of them, not in use
    std::uint32_t aggregators = 0;       // per AA, if that is decided already
    std::uint32_t copies = 1;            // that share a region's aggregators
    bool back = false;                   // a back level takes what collides, and keys of VAR packets
    std::uint32_t senders = 1;           // of the task
    std::optional<Geometry> geometry{};  // if that is decided already, with its rows
};

// What a plan promises: shares of the tuples that travel.
struct PlanEstimate {
    double travel = 1;        // of the input's tuples; the rest is merged
    double too_long = 0;      // travel LONG
    double whole = 0;         // go to the back level in VAR packets
    double collisions = 0;    // find their aggregator taken
    bool back = false;        // and go to a back level then
    double slots_filled = 0;  // share of the slots of a full packet
    double packets = 0;       // sent, a tuple
    double forwarded = 0;     // of them, those of which the switch leaves something
    double memory = 0;        // share of the switch's memory
    // What the planner makes small. That tuples do not reach the receiver, whose link and CPU all senders
    // share, is what aggregation is for and counts first; packets are each sender's own and count a third
    // of a tuple; one that goes to the back level costs the switch a twentieth of what it would cost to
    // travel; the whole of the switch's memory, which other tasks may want, must keep back one tuple in two
    // hundred.
    [[nodiscard]] double cost() const {
        return too_long + whole * kBackCost + collisions * (back ? kBackCost : 1) +
               (packets + forwarded) / 3 + memory / 200;
    }
    static constexpr double kBackCost = 0.05;
};

struct Plan {
    Geometry geometry;
    std::uint32_t aggregators = 0;  // per AA; 0: the switch's default
    SlotMap slot_map;
    PlanEstimate estimate;
};

// Fewer tuples say too little about the rest of an input.
inline constexpr std::uint64_t kLeastSample = 512;
// Whether there is no rest: the sample is the whole input.
[[nodiscard]] inline bool is_whole(const KeySample& sample) {
    return sample.expected != 0 && sample.expected <= sample.tuples();
}

// The best of all geometries that the limits allow. The sample must be valid, and have kLeastSample tuples or
// be whole. kLimit: no geometry fits.
Result<Plan> plan_task(const KeySample& sample, const PlanLimits& limits);

}  // namespace ask
