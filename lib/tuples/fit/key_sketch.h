// SPDX-License-Identifier: Apache-2.0
//
// Which keys of several samples are the same: of each sample the keys with the smallest hashes. Below the
// least of their largest ones everybody has told all keys, and there it can be counted how many there are in
// all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "lib/base/result.h"

namespace ask {

class KeySketch {
 public:
    // Keys of one sample, and of all together.
    static constexpr std::size_t kMost = 128;
    static constexpr std::size_t kMostOfAll = 4096;

    bool operator==(const KeySketch&) const = default;

    // A key that is new to the sample, by a hash that is the same for all; and one that has come again.
    void add(std::uint64_t hash);
    void again(std::uint64_t hash);
    // Another sample's keys come to those that are here.
    void merge(const KeySketch& other);

    // Different keys in all samples, for each that one of them counts: 1 if they share none.
    [[nodiscard]] double distinct() const;
    // Keys that occurred once in all samples together, for each that occurred once in one of them.
    [[nodiscard]] double once() const;

    // One sample's as it travels: hashes in their order, the lowest bit says that the key came again.
    [[nodiscard]] std::vector<std::uint64_t> encode() const;
    // kInput: too many, or not in order.
    [[nodiscard]] static Result<KeySketch> decode(const std::vector<std::uint64_t>& hashes);

 private:
    struct Entry {
        std::uint64_t hash = 0;     // its lowest bit is 0
        std::uint32_t samples = 1;  // that have it
        std::uint32_t once = 1;     // of them, where it occurred once
        bool operator==(const Entry&) const = default;
    };
    void cut(std::size_t most);

    std::vector<Entry> entries_;  // by hash
    // Keys with larger ones are left out.
    std::uint64_t limit_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace ask
