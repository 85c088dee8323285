// SPDX-License-Identifier: Apache-2.0
//
// How many tuples a switch leaves to the receiver because another key came first to their aggregator,
// estimated from a sample. A key that comes late finds its aggregator taken with a probability that follows
// from the keys before it (growth.h), and then all of its tuples travel on.
#pragma once

#include <array>

#include "lib/tuples/fit/growth.h"

namespace ask {

class KeyLoss {
 public:
    // For an input of `total` tuples, of whatever class, or as many as were sampled if that is more.
    KeyLoss(const KeyCounts& counts, double total);

    // Different keys of the class in the whole input.
    [[nodiscard]] double distinct() const { return distinct_; }
    // Share of all tuples that is lost, if the whole class had `keys_per_aggregator` at the end of the input.
    // Between 0 and the class's share.
    [[nodiscard]] double lost(double keys_per_aggregator) const;

 private:
    static constexpr int kLeast = -14;  // powers of two of keys per aggregator: ends of the table
    static constexpr int kMost = 14;
    static constexpr unsigned kPerOctave = 2;

    double share_ = 0;
    double distinct_ = 0;
    std::array<double, (kMost - kLeast) * kPerOctave + 1> table_{};
};

}  // namespace ask
