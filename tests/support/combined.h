// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/tuples/combiner.h"

namespace ask::test {

// What an application sends that merges its tuples in a window of so many, and in which order.
inline std::vector<std::pair<std::string, std::int64_t>> combined(
    const std::vector<std::pair<std::string, std::int64_t>>& tuples, Op op, std::uint32_t window) {
    std::vector<std::pair<std::string, std::int64_t>> sent;
    const auto out = [&sent](const Tuple& tuple) {
        sent.emplace_back(tuple.key, tuple.value);
        return Result<>();
    };
    Combiner combiner(op, window, public_seed(1));
    constexpr std::size_t kPiece = 100;
    std::vector<Tuple> piece;
    for (std::size_t at = 0; at < tuples.size(); at += kPiece) {
        piece.clear();
        for (std::size_t i = at; i < std::min(at + kPiece, tuples.size()); ++i) {
            piece.emplace_back(tuples[i].first, tuples[i].second);
        }
        static_cast<void>(combiner.add(piece, out));
    }
    static_cast<void>(combiner.drain(out));
    return sent;
}

}  // namespace ask::test
