// SPDX-License-Identifier: Apache-2.0
//
// How fast new keys turn up, from a sample: at a rate that falls as p / (1 + t/c)^g over the t tuples so far.
// p is the keys' share of all tuples, c and g are fitted to the sample's different keys and to those that
// occurred once (Good and Turing: the chance that the next tuple's key is new).
#pragma once

namespace ask {

// What a sample says of one class of keys.
struct KeyCounts {
    double all = 0;       // tuples of the sample, of whatever class
    double tuples = 0;    // of this class
    double distinct = 0;  // keys of this class
    double once = 0;      // of them, those that occurred once
};

struct Growth {
    double p = 0;
    double c = 1;
    double g = 0;

    // All zero for a class without keys.
    [[nodiscard]] static Growth fit(const KeyCounts& counts);
    // The chance that the tuple after t others brings a new key of the class.
    [[nodiscard]] double rate(double t) const;
    // Different keys of the class among t tuples.
    [[nodiscard]] double distinct(double t) const;
};

}  // namespace ask
