// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "lib/base/bytes.h"

namespace ask {

// A key, borrowed, and its value.
struct Tuple {
    std::string_view key;
    std::int64_t value = 0;
    // The key's first eight bytes as they lie, zeros behind a shorter one: what most keys are known by.
    std::uint64_t head = 0;

    Tuple() = default;
    Tuple(std::string_view of, std::int64_t with) : key(of), value(with), head(head_of(of)) {}
    // For a key in a buffer that can be read up to `end`: without a branch on the key's length.
    Tuple(std::string_view of, std::int64_t with, const char* end)
        : key(of), value(with), head(end - of.data() >= 8 ? masked(of) : head_of(of)) {}

 private:
    [[nodiscard]] static std::uint64_t masked(std::string_view key) {
        static constexpr std::array<std::uint64_t, 9> kMask{0,
                                                            0xff,
                                                            0xffff,
                                                            0xffffff,
                                                            0xffffffff,
                                                            0xffffffffff,
                                                            0xffffffffffff,
                                                            0xffffffffffffff,
                                                            0xffffffffffffffff};
        return load_raw<std::uint64_t>(key.data()) & kMask[std::min(key.size(), std::size_t{8})];
    }
    [[nodiscard]] static std::uint64_t head_of(std::string_view key) {
        std::uint64_t head = 0;
        std::memcpy(&head, key.data(), std::min(key.size(), sizeof(head)));
        return head;
    }
};

}  // namespace ask
