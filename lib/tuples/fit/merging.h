// SPDX-License-Identifier: Apache-2.0
//
// What is left to travel of an input once its senders have merged equal keys (lib/tuples/combiner.h), by a
// sample of what it was before. A sample cannot be merged itself: it is a part of the window, out of many
// places. But of t tuples in a row D(t) have different keys (growth.h), so a table for C of them spans T
// tuples with D(T) = C, and then what travels for each that comes is a key that those T did not have: D'(T).
// After the last one the table is emptied.
#pragma once

#include <cstdint>

#include "lib/tuples/fit/key_sample.h"

namespace ask {

// Tuples that an input of unknown length is taken to have: a pipe may bring any number.
inline constexpr std::uint64_t kUnknownLength = std::uint64_t{1} << 24;

// As if all that travels of `senders` inputs had been sampled: every count is of all of it. Frequent keys are
// the first to be merged, so those that are left are taken to be as frequent as each other: a bucket has its
// part of the keys, known ones where they belong, others anywhere. The sample itself where nothing is held
// back, or so little merged that the combiner passes it on.
[[nodiscard]] KeySample after_merging(const KeySample& sample, std::uint32_t senders);

}  // namespace ask
