// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/slot_codec.h"

#include "lib/tuples/key_hash.h"
#include "lib/tuples/packer.h"

namespace ask {

Form form_of(std::string_view key, std::int64_t value, const Geometry& geometry, bool whole_keys) {
    const SmallKey small = key.size() <= SmallKey::kBytes ? SmallKey::of(key) : SmallKey{};
    const Form form = form_of(small, key.size(), value, geometry);
    const bool in_slot = key.size() <= geometry.max_slot_key() && value == static_cast<std::int32_t>(value);
    const bool whole = whole_keys && form == Form::kLong && !in_slot && key.size() <= ASK_VAR_MAX_KEY &&
                       !key.empty() && fits_entry(value) && !has_zero_byte(key);
    return whole ? Form::kVar : form;
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
