// SPDX-License-Identifier: Apache-2.0
//
// What a planner has to know of a sender's keys, in a few kilobytes: for each number of kParts that a key
// takes, how many tuples and different keys there were, and how the tuples spread over the buckets of a slot
// map.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/abi/consts.h"
#include "lib/tuples/keyed_hash.h"
#include "lib/tuples/slot_map.h"

namespace ask {

// Keys that take a certain number of kParts.
struct KeyGroup {
    std::uint64_t distinct = 0;                             // different keys
    std::uint64_t once = 0;                                 // of them, those that occurred once
    std::array<std::uint64_t, SlotMap::kBuckets> tuples{};  // by the key's bucket
    bool operator==(const KeyGroup&) const = default;
    [[nodiscard]] std::uint64_t all_tuples() const;
};

struct KeySample {
    std::array<KeyGroup, ASK_MAX_M> groups{};  // [i]: keys of 4i+1 to 4i+4 bytes
    std::uint64_t long_tuples = 0;             // that fit no slot whatever m is
    std::uint64_t long_bytes = 0;              // of their keys
    std::uint64_t expected = 0;                // tuples the whole input may have; 0: not known
    bool operator==(const KeySample&) const = default;
    [[nodiscard]] std::uint64_t tuples() const;
};

// Largest number that a sample may hold: sums and products of a few thousand of them stay exact in a double.
inline constexpr std::uint64_t kMaxSampleCount = std::uint64_t{1} << 32;

// A sample from elsewhere. kInput: counts that contradict each other or are past kMaxSampleCount, or no
// tuples.
Result<> validate(const KeySample& sample);
// Adds another sender's sample. Keys that both have count twice, so the different keys are an upper bound.
void add_sample(KeySample& sum, const KeySample& sample);

// Makes a sample of the first tuples that it is given; bounded, deaf to the rest.
class KeySampler {
 public:
    // More tuples change a plan little and take time.
    static constexpr std::uint32_t kMaxTuples = 1U << 16;

    // Whoever knows `seed` can choose keys that end the sample early.
    explicit KeySampler(const HashSeed& seed) : seed_(seed) {}

    void add(std::string_view key, std::int64_t value);
    [[nodiscard]] bool full() const { return tuples_ >= kMaxTuples; }
    [[nodiscard]] std::uint32_t tuples() const { return tuples_; }
    // Places that were looked at so far, to find keys.
    [[nodiscard]] std::uint64_t probes() const { return probes_; }
    // `expected`: tuples of the whole input, 0 if nobody knows.
    [[nodiscard]] KeySample finish(std::uint64_t expected);

 private:
    // Counts a key by its hash.
    void count(KeyGroup& group, std::uint64_t hash);

    HashSeed seed_;
    KeySample sample_;
    std::vector<std::uint32_t> seen_;  // of the keys' hashes, a table with open addressing; made by the first
    std::uint32_t tuples_ = 0;
    std::uint64_t probes_ = 0;
};

}  // namespace ask
