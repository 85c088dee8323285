// SPDX-License-Identifier: Apache-2.0
//
// Whole keys as VAR carries them (lib/abi/var.h): what may travel so, records and back, and those that a
// packer holds back.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/abi/back.h"
#include "lib/abi/var.h"
#include "lib/base/bytes.h"

namespace ask {

[[nodiscard]] constexpr bool word_has_zero_byte(std::uint64_t word) {
    return ((word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL) != 0;
}
[[nodiscard]] bool has_zero_byte(std::string_view key);
// Whether an entry of the back level can hold it.
[[nodiscard]] constexpr bool fits_entry(std::int64_t value) {
    return ASK_BACK_FITS(value);
}

// Writes a record of the key's group. The key has 1 to ASK_VAR_MAX_KEY bytes, none of them zero.
inline void write_record(std::byte* to, std::string_view key, std::int64_t value) {
    store_be(to, static_cast<std::uint64_t>(value));
    to += sizeof(std::uint64_t);
    const std::uint32_t words = ask_var_key_words(ask_var_group(static_cast<std::uint32_t>(key.size())));
    std::memset(to, 0, std::size_t{8} * words);
    std::memcpy(to, key.data(), key.size());
    for (std::size_t word = (key.size() + 7) / 8; word < words; ++word) {
        store_raw(to + 8 * word, std::uint64_t{ASK_BACK_PAD_WORD});
    }
}

// The key of such a record, where it lies; nullopt if no sender writes it.
[[nodiscard]] inline std::optional<std::string_view> record_key(const std::byte* record,
                                                                std::uint32_t group) {
    const std::byte* const key = record + sizeof(std::uint64_t);
    const auto word = [key](std::uint32_t i) { return load_raw<std::uint64_t>(key + std::size_t{8} * i); };
    std::uint32_t last = ask_var_key_words(group) - 1;
    while (last > 0 && word(last) == std::uint64_t{ASK_BACK_PAD_WORD}) {
        --last;
    }
    const auto zeros = static_cast<std::uint32_t>(std::countl_zero(word(last))) / 8;
    // Bytes behind the key are set, so that only those of the key are looked at.
    const std::uint64_t filled = word(last) | (zeros == 0 ? 0 : ~std::uint64_t{0} << (64 - 8 * zeros));
    bool gap = zeros == 8 || word_has_zero_byte(filled);
    for (std::uint32_t i = 0; i < last; ++i) {
        gap = gap || word_has_zero_byte(word(i));
    }
    const std::uint32_t size = 8 * last + 8 - zeros;
    if (gap || ask_var_group(size) != group) {
        return std::nullopt;
    }
    return std::string_view(reinterpret_cast<const char*>(key), size);
}

// Records that wait to travel: of each group, as they will lie in a packet, the oldest first.
class HeldRecords {
 public:
    using Counts = std::array<std::uint32_t, ASK_VAR_GROUPS>;

    [[nodiscard]] std::uint32_t records() const { return records_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    // The most of each group that fit `room` bytes of bitmaps, ask_var_hdr and records together, the longest
    // first: shorter ones fill what those leave.
    [[nodiscard]] Counts that_fit(std::size_t room) const;
    // Whether others would not fit such a packet any more.
    [[nodiscard]] bool fill(std::size_t room) const {
        return records_ >= ASK_VAR_MAX_RECORDS || packet_bytes(records_, bytes_) >= room;
    }

    void push(std::string_view key, std::int64_t value);
    // Moves a group's oldest records to `to`. Returns the bytes.
    std::size_t pop(std::uint32_t group, std::uint32_t count, std::byte* to);

 private:
    // Of bitmaps, ask_var_hdr and so many records.
    [[nodiscard]] static std::size_t packet_bytes(std::uint32_t records, std::size_t bytes) {
        return std::size_t{4} * ask_var_rows(records) + sizeof(ask_var_hdr) + bytes;
    }

    std::array<std::vector<std::byte>, ASK_VAR_GROUPS> groups_;
    std::uint32_t records_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace ask
