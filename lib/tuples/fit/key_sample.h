// SPDX-License-Identifier: Apache-2.0
//
// What a planner has to know of a sender's keys, in a few kilobytes: for each number of kParts that a key
// takes, how many tuples and different keys there were, and how both spread over the buckets of a slot map;
// and of those that fit no slot, how many there were of each length.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/abi/consts.h"
#include "lib/abi/var.h"
#include "lib/tuples/fit/growth.h"
#include "lib/tuples/fit/key_sketch.h"
#include "lib/tuples/keyed_hash.h"
#include "lib/tuples/slot_map.h"

namespace ask {

// Keys that take a certain number of kParts.
struct KeyGroup {
    using Buckets = std::array<std::uint64_t, SlotMap::kBuckets>;

    std::uint64_t once = 0;  // keys that occurred once, or in one place only of those that were looked into
    Buckets tuples{};        // by the key's bucket
    Buckets keys{};          // different ones
    bool operator==(const KeyGroup&) const = default;
    [[nodiscard]] std::uint64_t all_tuples() const;
    [[nodiscard]] std::uint64_t distinct() const;
};

// Tuples that fit no slot, by the lengths of their keys.
struct LooseKeys {
    std::uint64_t tuples = 0;
    std::uint64_t bytes = 0;     // of the tuples' keys
    std::uint64_t distinct = 0;  // different keys
    std::uint64_t once = 0;      // of them, those that occurred once, as above
    bool operator==(const LooseKeys&) const = default;
};

struct KeySample {
    // That a VAR packet takes (lib/abi/var.h), and the rest, which travels LONG whatever is agreed.
    static constexpr std::size_t kLooseGroups = ASK_VAR_GROUPS + 1;

    std::array<KeyGroup, ASK_MAX_M> groups{};     // [i]: keys of 4i+1 to 4i+4 bytes
    std::array<LooseKeys, kLooseGroups> loose{};  // by ask_var_group, values outside int32; the rest
    std::uint64_t expected = 0;                   // tuples the whole input may have; 0: not known
    std::uint64_t window = 0;   // tuples that the sender holds back to merge equal keys; 0: none
    std::uint64_t senders = 1;  // whose sample it is; what they count, expect and hold back adds up
    KeySketch sketch{};         // tells how many keys they have in common
    bool operator==(const KeySample&) const = default;
    [[nodiscard]] std::uint64_t tuples() const;
    // Of some of its tuples, with keys that several senders have counted once.
    [[nodiscard]] KeyCounts counts(const KeyGroup& group) const;
    [[nodiscard]] KeyCounts counts(const LooseKeys& keys) const;
};

// Largest number that a sample may hold: sums and products of a few thousand of them stay exact in a double.
inline constexpr std::uint64_t kMaxSampleCount = std::uint64_t{1} << 32;

// One sender's sample, from elsewhere. kInput: counts that contradict each other or are past kMaxSampleCount,
// or no tuples.
Result<> validate(const KeySample& sample);
// Adds another sender's sample. Keys that both have count twice, but for what the sketch says.
void add_sample(KeySample& sum, const KeySample& sample);

// Makes a sample of the first tuples that it is given; bounded, deaf to the rest.
class KeySampler {
 public:
    // More tuples change a plan little and take time.
    static constexpr std::uint32_t kMaxTuples = 1U << 16;

    // Whoever knows `seed` can choose keys that end the sample early.
    explicit KeySampler(const HashSeed& seed) : seed_(seed) {}

    void add(std::string_view key, std::int64_t value);
    // What comes now is from elsewhere in the input. In one that is sorted, or speaks of one thing after the
    // other, a key comes again and again where it comes at all, and elsewhere are as many new ones; so a key
    // that has come only in one place counts as one that came once.
    void next_place() { place_ = place_ % kPlaceMarks + 1; }
    [[nodiscard]] bool full() const { return tuples_ >= kMaxTuples; }
    [[nodiscard]] std::uint32_t tuples() const { return tuples_; }
    // Places that were looked at so far, to find keys.
    [[nodiscard]] std::uint64_t probes() const { return probes_; }
    // `expected`: tuples of the whole input, 0 if nobody knows.
    [[nodiscard]] KeySample finish(std::uint64_t expected);

 private:
    enum class Seen : std::uint8_t { kNew, kTwice, kOften };
    // How often the hash of a key came before.
    Seen see(std::uint64_t hash);
    void count_key(Seen seen, std::uint64_t hash, std::uint64_t& distinct, std::uint64_t& once);
    void add_loose(std::string_view key);

    HashSeed seed_;
    KeySample sample_;
    std::vector<std::uint32_t> seen_;  // of the keys' hashes, a table with open addressing; made by the first
    // Places are told apart up to so many; 0: there is one.
    static constexpr std::uint32_t kPlaceMarks = 15;
    std::uint32_t place_ = 0;
    std::uint32_t tuples_ = 0;
    std::uint64_t probes_ = 0;
};

}  // namespace ask
