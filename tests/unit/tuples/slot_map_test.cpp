// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/slot_map.h"

#include <doctest/doctest.h>

namespace ask {
namespace {

constexpr Geometry kBoth{.short_slots = 3, .groups = 2, .m = 2, .rows = 1};
constexpr Geometry kShortOnly{.short_slots = 3, .groups = 0, .m = 0, .rows = 1};

SlotMap some_map() {
    SlotMap map;
    for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
        map.short_slot[bucket] = static_cast<std::uint8_t>(bucket % 3);
        map.medium_slot[bucket] = static_cast<std::uint8_t>(3 + bucket / 128);
    }
    return map;
}

TEST_CASE("a slot map reads back as it was written") {
    const auto both = decode_slot_map(encode_slot_map(some_map(), kBoth), kBoth);
    REQUIRE(both.ok());
    CHECK(*both == some_map());
    const std::string bytes = encode_slot_map(some_map(), kShortOnly);
    CHECK(bytes.size() == SlotMap::kBuckets);
    const auto shorts = decode_slot_map(bytes, kShortOnly);
    REQUIRE(shorts.ok());
    CHECK(shorts->short_slot == some_map().short_slot);
}

TEST_CASE("a slot map that does not fit its geometry is refused") {
    const std::string bytes = encode_slot_map(some_map(), kBoth);
    CHECK_FALSE(decode_slot_map("", kBoth).ok());
    CHECK_FALSE(decode_slot_map(bytes.substr(1), kBoth).ok());
    CHECK_FALSE(decode_slot_map(bytes + bytes, kBoth).ok());
    CHECK_FALSE(decode_slot_map(bytes, kShortOnly).ok());
    // A short key's slot among the medium ones, and the other way round, and past the row.
    for (const auto& [at, slot] :
         {std::pair(0, 3), std::pair(255, 255), std::pair(256, 2), std::pair(511, 5)}) {
        std::string broken = bytes;
        broken[static_cast<std::size_t>(at)] = static_cast<char>(slot);
        const auto refused = decode_slot_map(broken, kBoth);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kInput);
        CHECK(refused.error().text().find("slot " + std::to_string(slot)) != std::string::npos);
    }
}

}  // namespace
}  // namespace ask
