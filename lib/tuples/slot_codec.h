// SPDX-License-Identifier: Apache-2.0
//
// Keys as kParts and back (design section 4). A key's bytes fill the kParts in order, padded
// with zeros; a word that would be all padding is 00 00 00 01, which no such key contains, so
// that a kPart of 0 always means blank.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "lib/abi/consts.h"
#include "lib/base/bytes.h"

namespace ask {

inline constexpr std::uint32_t kPadWord = std::uint32_t{ASK_PAD_LAST_BYTE} << 24;
inline constexpr std::size_t kMaxSlotKey = std::size_t{ASK_MAX_M} * ASK_KPART_BYTES;

// Writes a slot of `aas` ask_slots: kParts, and `value` (big-endian) in the last. `key` is
// padded with zeros to 4 x aas bytes and has `size` of them, none of which is zero.
inline void encode_slot(std::byte* to, unsigned aas, const char* key, std::size_t size, std::int32_t value) {
    for (unsigned word = 0; word < aas; ++word) {
        const std::size_t at = std::size_t{word} * ASK_KPART_BYTES;
        store_raw(to, at < size ? load_raw<std::uint32_t>(key + at) : kPadWord);
        store_raw(to + ASK_KPART_BYTES, std::uint32_t{0});
        to += ASK_SLOT_BYTES;
    }
    store_be(to - 4, static_cast<std::uint32_t>(value));
}

// Length of the key in one kPart that is not padding, 1..4; 0 if no sender writes it.
[[nodiscard]] inline unsigned kpart_length(std::uint32_t kpart) {
    if (kpart == 0) {
        return 0;
    }
    const unsigned length = 4U - static_cast<unsigned>(std::countl_zero(kpart)) / 8U;
    // Bytes past the key are set, so that the zero-byte test below sees only those of the key.
    const std::uint32_t filled = kpart | (length == 4 ? 0U : ~0U << (8U * length));
    const bool gap = ((filled - 0x01010101U) & ~filled & 0x80808080U) != 0;
    return gap ? 0 : length;
}

// Reads the key of `aas` words of 8 bytes each (ask_slot or ask_aggregator: the kPart comes
// first in both). Writes 4 x aas bytes at most. Returns 0 for words that no sender writes.
[[nodiscard]] inline std::size_t decode_kparts(const std::byte* from, unsigned aas, char* out) {
    std::size_t size = 0;
    bool ended = false;
    for (unsigned word = 0; word < aas; ++word) {
        const std::byte* at = from + std::size_t{word} * ASK_SLOT_BYTES;
        const auto kpart = load_raw<std::uint32_t>(at);
        const auto above = load_raw<std::uint32_t>(at + ASK_KPART_BYTES);
        if (word + 1 < aas && above != 0) {
            return 0;
        }
        if (word > 0 && kpart == kPadWord) {
            ended = true;
            continue;
        }
        const unsigned length = kpart_length(kpart);
        if (ended || length == 0) {
            return 0;
        }
        store_raw(out + size, kpart);
        size += length;
        ended = length < ASK_KPART_BYTES;
    }
    return size;
}

}  // namespace ask
