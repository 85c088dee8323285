// SPDX-License-Identifier: Apache-2.0
//
// Which slot of a row a key takes, agreed when a task is set up: the key's hash chooses one of 256 buckets,
// and the map gives the bucket a slot of the key's class. A planner that knows how often the buckets occur
// (lib/tuples/fit) fills slots evenly that way. Only senders look at it: switch and receiver take a key from
// whatever slot it comes in.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/tuples/types.h"

namespace ask {

struct SlotMap {
    static constexpr unsigned kBuckets = 256;
    using Slots = std::array<std::uint8_t, kBuckets>;

    Slots short_slot{};   // in [0, short_slots)
    Slots medium_slot{};  // in [short_slots, slots)

    bool operator==(const SlotMap&) const = default;
    // The upper bits of a hash, as place_of() uses them.
    [[nodiscard]] static constexpr unsigned bucket_of(std::uint64_t hash) {
        return static_cast<unsigned>(hash >> 56);
    }
};

// As it travels: a byte a bucket, short keys' first; classes without slots are left out.
[[nodiscard]] std::string encode_slot_map(const SlotMap& map, const Geometry& geometry);
// kInput: not as long as the geometry demands, or a slot of the other class or past the row.
Result<SlotMap> decode_slot_map(std::string_view bytes, const Geometry& geometry);

}  // namespace ask
