// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/slot_codec.h"

#include "lib/tuples/key_hash.h"
#include "lib/tuples/packer.h"

namespace ask {

Form form_of(std::string_view key, std::int64_t value, const Geometry& geometry) {
    const SmallKey small = key.size() <= SmallKey::kBytes ? SmallKey::of(key) : SmallKey{};
    return form_of(small, key.size(), value, geometry);
}

std::optional<std::size_t> decode_slot_key(std::span<const std::byte> slot, std::span<char> out) {
    const std::size_t aas = slot.size() / ASK_SLOT_BYTES;
    if (aas == 0 || aas > ASK_MAX_M || slot.size() % ASK_SLOT_BYTES != 0 ||
        out.size() < aas * ASK_KPART_BYTES) {
        return std::nullopt;
    }
    const std::size_t size = decode_kparts(slot.data(), static_cast<unsigned>(aas), out.data());
    return size == 0 ? std::nullopt : std::optional<std::size_t>(size);
}

}  // namespace ask
