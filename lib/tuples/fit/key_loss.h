// SPDX-License-Identifier: Apache-2.0
//
// How many tuples a switch leaves to the receiver because another key came first to their aggregator,
// estimated from a sample. New keys turn up at a rate that falls as p / (1 + t/c)^g over the t tuples so far:
// p is the keys' share of all tuples, c and g are fitted to the sample's different keys and to those that
// occurred once (Good and Turing: the chance that the next tuple's key is new). A key that comes late finds
// its aggregator taken with a probability that follows from the keys before it, and then all of its tuples
// travel on.
#pragma once

#include <array>
#include <cstdint>

namespace ask {

// What a sample says of one class of keys.
struct KeyCounts {
    double all = 0;       // tuples of the sample, of whatever class
    double tuples = 0;    // of this class
    double distinct = 0;  // keys of this class
    double once = 0;      // of them, those that occurred once
};

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
