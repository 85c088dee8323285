// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/slot_map.h"

namespace ask {

namespace {

void append(std::string& bytes, const SlotMap::Slots& slots) {
    bytes.append(slots.begin(), slots.end());
}

// Takes one class off the front; its slots are in [first, end).
Result<> take(std::string_view& bytes, SlotMap::Slots& slots, unsigned first, unsigned end) {
    for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
        const auto slot = static_cast<std::uint8_t>(bytes[bucket]);
        if (slot < first || slot >= end) {
            return Error(Errc::kInput, "slot map: bucket " + std::to_string(bucket) + " is given slot " +
                                           std::to_string(slot) + ", which is not from " +
                                           std::to_string(first) + " to " + std::to_string(end - 1));
        }
        slots[bucket] = slot;
    }
    bytes.remove_prefix(SlotMap::kBuckets);
    return {};
}

}  // namespace

std::string encode_slot_map(const SlotMap& map, const Geometry& geometry) {
    std::string bytes;
    if (geometry.short_slots > 0) {
        append(bytes, map.short_slot);
    }
    if (geometry.groups > 0) {
        append(bytes, map.medium_slot);
    }
    return bytes;
}

Result<SlotMap> decode_slot_map(std::string_view bytes, const Geometry& geometry) {
    const unsigned classes = (geometry.short_slots > 0 ? 1U : 0U) + (geometry.groups > 0 ? 1U : 0U);
    if (bytes.size() != std::size_t{classes} * SlotMap::kBuckets) {
        return Error(Errc::kInput, "slot map: " + std::to_string(bytes.size()) + " bytes, geometry " +
                                       to_string(geometry) + " takes " +
                                       std::to_string(classes * SlotMap::kBuckets));
    }
    SlotMap map;
    if (geometry.short_slots > 0) {
        ASK_PASS(take(bytes, map.short_slot, 0, geometry.short_slots));
    }
    if (geometry.groups > 0) {
        ASK_PASS(take(bytes, map.medium_slot, geometry.short_slots, geometry.slots()));
    }
    return map;
}

}  // namespace ask
