// SPDX-License-Identifier: Apache-2.0
//
// Buckets of keys assigned to the slots of their class. A slot that gets more tuples than others is full
// first and leaves the others' places empty; a slot that gets more keys than others has more of them collide.
// Frequent keys pull the two apart: the caller says how much a slot may get, within which the buckets are
// spread evenly.
#pragma once

#include <array>
#include <cstdint>

#include "lib/tuples/slot_map.h"

namespace ask {

struct SlotShares {
    SlotMap::Slots slot{};                          // of each bucket
    std::array<unsigned, ASK_MAX_SLOTS> buckets{};  // of each slot, from `first` on
    double largest = 0;                             // of the slots' tuples
};

// Buckets, the one with the most tuples first; of equals in a fixed order, so that plans can be repeated.
using BucketOrder = std::array<std::uint8_t, SlotMap::kBuckets>;
[[nodiscard]] BucketOrder heaviest_first(const std::array<double, SlotMap::kBuckets>& tuples);

// Assigns buckets, which have these tuples, to `slots` slots from number `first` on. Above `limit` a slot
// gets only what fits no other.
[[nodiscard]] SlotShares share_slots(const std::array<double, SlotMap::kBuckets>& tuples,
                                     const BucketOrder& order, unsigned first, unsigned slots, double limit);
[[nodiscard]] inline SlotShares share_slots(const std::array<double, SlotMap::kBuckets>& tuples,
                                            unsigned first, unsigned slots, double limit) {
    return share_slots(tuples, heaviest_first(tuples), first, slots, limit);
}

}  // namespace ask
