// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores at any alignment, in the packet's (network) order or as they lie.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ask {

// The check reads words little-endian and the switch reads them as they lie (lib/abi/check.h).
static_assert(std::endian::native == std::endian::little, "only little-endian machines are supported");

template <std::unsigned_integral T>
[[nodiscard]] constexpr T swap_bytes(T value) {
    if constexpr (sizeof(T) == 8) {
        return __builtin_bswap64(value);
    } else if constexpr (sizeof(T) == 4) {
        return __builtin_bswap32(value);
    } else if constexpr (sizeof(T) == 2) {
        return __builtin_bswap16(value);
    } else {
        return value;
    }
}

template <std::unsigned_integral T>
[[nodiscard]] inline T load_raw(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

template <std::unsigned_integral T>
inline void store_raw(void* to, T value) {
    std::memcpy(to, &value, sizeof(value));
}

template <std::unsigned_integral T>
[[nodiscard]] inline T load_be(const void* from) {
    return swap_bytes(load_raw<T>(from));
}

template <std::unsigned_integral T>
inline void store_be(void* to, T value) {
    store_raw(to, swap_bytes(value));
}

// memcpy of all of `from`, which lies apart. As std::ranges::copy would, but that GCC 12 makes a loop of
// single bytes of it where a span is not a plain pointer.
inline void copy_bytes(std::span<const std::byte> from, std::byte* to) {
    if (!from.empty()) {
        std::memcpy(to, from.data(), from.size());
    }
}
inline void clear_bytes(std::span<std::byte> bytes) {
    if (!bytes.empty()) {
        std::memset(bytes.data(), 0, bytes.size());
    }
}

}  // namespace ask
