// SPDX-License-Identifier: Apache-2.0
//
// The keys that a back level is filled with: eight hexadecimal digits, all different, in no order.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ask::bench {

inline constexpr std::size_t kKeyBytes = 8;

// A bijection of 32 bits and its inverse.
constexpr std::uint32_t kOdd = 0x9e3779b1;
constexpr std::uint32_t kInverse = 0x0e8b2f51;
static_assert(kOdd * kInverse == 1);

constexpr std::array<char, kKeyBytes> key_of(std::uint32_t number) {
    std::uint32_t mixed = number * kOdd;
    mixed ^= mixed >> 16U;
    std::array<char, kKeyBytes> key{};
    for (std::size_t i = kKeyBytes; i-- > 0; mixed >>= 4U) {
        key[i] = "0123456789abcdef"[mixed & 15U];
    }
    return key;
}

// Nothing if it is no such key.
inline std::optional<std::uint32_t> number_of(std::string_view key) {
    std::uint32_t mixed = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), mixed, 16);
    if (key.size() != kKeyBytes || read.ec != std::errc() || read.ptr != key.data() + key.size()) {
        return std::nullopt;
    }
    return (mixed ^ mixed >> 16U) * kInverse;
}

// Which is also checked at the end.
constexpr std::int64_t value_of(std::uint32_t number) {
    return std::int64_t{number} + 1;
}

}  // namespace ask::bench
