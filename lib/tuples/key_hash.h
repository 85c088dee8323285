// SPDX-License-Identifier: Apache-2.0
//
// The hosts' hash of a key, and the slot of a row that a key takes by it (ASK section 3.2.2,
// key-space partition). It shares nothing with lib/abi/hash.h, by which the switch chooses an
// aggregator: were they related, the keys of one slot would crowd into a part of their AA.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "lib/base/bytes.h"
#include "lib/tuples/types.h"

namespace ask {

namespace detail {

__extension__ using U128 = unsigned __int128;

// Folded 64 x 64 bit product.
[[nodiscard]] inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    const U128 product = U128{a} * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Arbitrary odd constants with about as many ones as zeros.
inline constexpr std::uint64_t kHashA = 0x8f1bbcdc53a4e96dULL;
inline constexpr std::uint64_t kHashB = 0xc3a5c85c97cb3127ULL;
inline constexpr std::uint64_t kHashC = 0xb492b66fbe98f273ULL;

[[nodiscard]] inline std::uint64_t hash_long(const char* data, std::size_t size) {
    std::uint64_t state = kHashC ^ size;
    std::size_t at = 0;
    for (; at + 16 < size; at += 16) {
        state = fold(load_raw<std::uint64_t>(data + at) ^ kHashA ^ state,
                     load_raw<std::uint64_t>(data + at + 8) ^ kHashB);
    }
    const std::uint64_t a = load_raw<std::uint64_t>(data + size - 16);
    const std::uint64_t b = load_raw<std::uint64_t>(data + size - 8);
    return fold(fold(a ^ kHashA ^ state, b ^ kHashB) ^ kHashC, kHashA ^ size);
}

}  // namespace detail

// A key of at most 16 bytes in two words, padded with zeros.
struct SmallKey {
    static constexpr std::size_t kBytes = 16;
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    auto operator<=>(const SmallKey&) const = default;

    // Without a loop or a byte beyond the key: by loads that overlap.
    [[nodiscard]] static SmallKey of(std::string_view key) {
        const char* data = key.data();
        const std::size_t size = key.size();
        const auto byte = [data](std::size_t at) {
            return std::uint64_t{static_cast<std::uint8_t>(data[at])} << (8 * at);
        };
        if (size > 8) {
            return {.low = load_raw<std::uint64_t>(data),
                    .high = load_raw<std::uint64_t>(data + size - 8) >> (8 * (kBytes - size))};
        }
        if (size >= 4) {
            return {.low = load_raw<std::uint32_t>(data) |
                           std::uint64_t{load_raw<std::uint32_t>(data + size - 4)} << (8 * (size - 4)),
                    .high = 0};
        }
        return {.low = size == 0 ? 0 : byte(0) | byte(size / 2) | byte(size - 1), .high = 0};
    }
    // Whether one of the first `size` bytes is zero.
    [[nodiscard]] bool has_zero_byte(std::size_t size) const {
        constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
        const std::uint64_t a = size < 8 ? low | ~std::uint64_t{0} << (8 * size) : low;
        const std::uint64_t in_low = (a - kOnes) & ~a & kOnes << 7;
        if (size <= 8) {
            return in_low != 0;
        }
        const std::uint64_t b = size < 16 ? high | ~std::uint64_t{0} << (8 * (size - 8)) : high;
        return (in_low | ((b - kOnes) & ~b & kOnes << 7)) != 0;
    }
};

[[nodiscard]] inline std::uint64_t key_hash(const SmallKey& key, std::size_t size) {
    // The sum keeps a key apart from others when one half makes the product zero.
    const std::uint64_t sum = key.low * detail::kHashC + key.high * detail::kHashA;
    const std::uint64_t mixed = detail::fold(key.low ^ detail::kHashA, key.high ^ detail::kHashB) ^ sum;
    return detail::fold(mixed ^ detail::kHashC, detail::kHashA ^ size);
}

// 64-bit hash of a key's bytes and length. The same on every host and in every run.
[[nodiscard]] inline std::uint64_t key_hash(std::string_view key) {
    return key.size() <= SmallKey::kBytes ? key_hash(SmallKey::of(key), key.size())
                                          : detail::hash_long(key.data(), key.size());
}

// Reduces the upper half of a hash to [0, n): the lower half stays independent of it.
[[nodiscard]] constexpr std::uint32_t place_of(std::uint64_t hash, std::uint32_t n) {
    return static_cast<std::uint32_t>(((hash >> 32) * n) >> 32);
}

// The slot of a row that a short or medium key with this hash always takes.
[[nodiscard]] constexpr std::uint32_t short_slot_of(std::uint64_t hash, const Geometry& geometry) {
    return place_of(hash, geometry.short_slots);
}
[[nodiscard]] constexpr std::uint32_t medium_slot_of(std::uint64_t hash, const Geometry& geometry) {
    return geometry.short_slots + place_of(hash, geometry.groups);
}

// First AA that feeds on `slot`, and how many AAs it spans.
[[nodiscard]] constexpr std::uint32_t slot_first_aa(std::uint32_t slot, const Geometry& geometry) {
    return slot < geometry.short_slots ? slot
                                       : geometry.short_slots + (slot - geometry.short_slots) * geometry.m;
}
[[nodiscard]] constexpr std::uint32_t slot_aas(std::uint32_t slot, const Geometry& geometry) {
    return slot < geometry.short_slots ? 1U : geometry.m;
}

}  // namespace ask
