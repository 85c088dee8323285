// SPDX-License-Identifier: Apache-2.0
//
// Values of members that follow from what they are of, and what a set's members make together: lanes and
// operators of value streams once more, so that neither the switch's program nor lib/values is asked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "lib/abi/values.h"

namespace ask::test {

// A word that looks random, the same for the same parts.
inline std::uint64_t made_word(std::uint64_t seed, std::initializer_list<std::uint64_t> parts) {
    std::uint64_t mix = seed;
    for (const std::uint64_t part : parts) {
        mix = (mix ^ part) * 0xd6e8feb86659fd93;
        mix ^= mix >> 32;
    }
    return mix;
}

std::uint64_t fold_lanes(std::uint64_t a, std::uint64_t b, auto fold) {
    const auto lane = [&](unsigned shift) {
        return std::uint64_t{static_cast<std::uint32_t>(
                   fold(static_cast<std::int32_t>(a >> shift), static_cast<std::int32_t>(b >> shift)))}
               << shift;
    };
    return lane(0) | lane(32);
}

// By enum ask_values_op; any other number is the last.
inline std::uint64_t fold_words(std::uint8_t op, std::uint64_t a, std::uint64_t b) {
    switch (op) {
        case ASK_VALUES_ADD64:
            return a + b;
        case ASK_VALUES_ADD32:
            return fold_lanes(a, b, [](std::int64_t x, std::int64_t y) { return x + y; });
        case ASK_VALUES_MIN32:
            return fold_lanes(a, b, [](std::int32_t x, std::int32_t y) { return std::min(x, y); });
        case ASK_VALUES_MAX32:
            return fold_lanes(a, b, [](std::int32_t x, std::int32_t y) { return std::max(x, y); });
        case ASK_VALUES_AND64:
            return a & b;
        case ASK_VALUES_OR64:
            return a | b;
        default:
            return a ^ b;
    }
}

// Of so many blocks, what the members in `bits` have as value(member, word); zeros of none.
std::vector<std::uint64_t> fold_of_members(std::uint8_t op, std::size_t blocks, std::uint64_t bits,
                                           auto value) {
    std::vector<std::uint64_t> words(blocks * ASK_VALUES_BLOCK_WORDS);
    for (std::size_t i = 0; i < words.size(); ++i) {
        bool first = true;
        for (unsigned member = 0; member < 64; ++member) {
            if ((bits >> member & 1U) != 0) {
                words[i] = first ? value(member, i) : fold_words(op, words[i], value(member, i));
                first = false;
            }
        }
    }
    return words;
}

}  // namespace ask::test
