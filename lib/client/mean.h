// SPDX-License-Identifier: Apache-2.0
//
// A task of means is a sum on the wire. For each tuple its sender hands in two: one is added to the sum of
// its key, the other, of 1, to the key's count. Both have keys of their own, in one task, so that they are
// committed together:
//
//     the count of K    K#
//     the sum of K      K, or K+ where K ends in # or + itself
//
// No two of these are the same, whatever the keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/abi/consts.h"

namespace ask::client {

inline constexpr char kCountMark = '#';
inline constexpr char kSumMark = '+';
// Longest key of such a task.
inline constexpr std::size_t kMaxMeanKey = ASK_MAX_KEY - 1;

enum class MeanPart : std::uint8_t { kSum, kCount };

struct MeanKey {
    std::string_view key;
    MeanPart part = MeanPart::kSum;
};

// Whether the sum has a mark.
[[nodiscard]] constexpr bool marks_sum(std::string_view key) {
    return !key.empty() && (key.back() == kCountMark || key.back() == kSumMark);
}

// Of a key of the result.
[[nodiscard]] constexpr MeanKey mean_key(std::string_view of) {
    if (!marks_sum(of)) {
        return {of, MeanPart::kSum};
    }
    return {of.substr(0, of.size() - 1), of.back() == kCountMark ? MeanPart::kCount : MeanPart::kSum};
}

// What `key` and its parts are called in the task: the inverse.
[[nodiscard]] inline std::string mean_key(std::string_view key, MeanPart part) {
    std::string of(key);
    if (part == MeanPart::kCount) {
        of += kCountMark;
    } else if (marks_sum(key)) {
        of += kSumMark;
    }
    return of;
}

}  // namespace ask::client
