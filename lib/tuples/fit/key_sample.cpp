// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/key_sample.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "lib/tuples/combiner.h"
#include "lib/tuples/key_hash.h"
#include "lib/tuples/packer.h"

namespace ask {

namespace {

// A geometry whose slots take every key that any slot takes.
constexpr Geometry kWidest{.short_slots = 1, .groups = 1, .m = ASK_MAX_M, .rows = 1};

// Places for parts of hashes, chosen by the lower half; half of them at most are taken. The lowest bit says
// that a key came again, the next four where in the input it came first; 0 is a free place.
constexpr std::size_t kPlaces = std::size_t{2} * KeySampler::kMaxTuples;
constexpr std::uint32_t kAgain = 1;
constexpr std::uint32_t kPlaceShift = 1;
constexpr std::uint32_t kPlaceBits = 15U << kPlaceShift;
constexpr std::uint32_t kHashBits = ~(kAgain | kPlaceBits);
constexpr std::uint32_t kLeastPart = kPlaceBits + kAgain + 1;
// A key that finds its place further away ends the sample. By chance none does.
constexpr std::size_t kFarthest = 512;

std::uint64_t total_of(const KeyGroup::Buckets& buckets) {
    return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

void add_buckets(KeyGroup::Buckets& sum, const KeyGroup::Buckets& more) {
    std::ranges::transform(sum, more, sum.begin(), std::plus<>());
}

Error contradiction(const std::string& which, std::uint64_t distinct, std::uint64_t once,
                    std::uint64_t tuples) {
    return Error(Errc::kInput, "key sample: keys of " + which + ": " + std::to_string(distinct) +
                                   " different ones, " + std::to_string(once) + " of them once, in " +
                                   std::to_string(tuples) + " tuples");
}

bool fits(std::uint64_t tuples, std::uint64_t distinct, std::uint64_t once) {
    return once <= distinct && distinct <= tuples && (distinct > 0 || tuples == 0);
}

std::uint64_t largest_count(const KeySample& sample) {
    std::uint64_t largest = sample.expected;
    for (const KeyGroup& group : sample.groups) {
        largest =
            std::max({largest, group.once, std::ranges::max(group.tuples), std::ranges::max(group.keys)});
    }
    for (const LooseKeys& loose : sample.loose) {
        largest = std::max({largest, loose.tuples, loose.bytes, loose.distinct, loose.once});
    }
    return largest;
}

// Of a key that fits no slot.
std::size_t loose_group(std::string_view key) {
    return key.empty() || key.size() > ASK_VAR_MAX_KEY || key.find('\0') != std::string_view::npos
               ? KeySample::kLooseGroups - 1
               : ask_var_group(static_cast<std::uint32_t>(key.size()));
}

// A sketch has the smallest, and buckets are the upper bits: those that it has would all be of one bucket's
// keys.
std::uint64_t sketched(std::uint64_t hash) {
    return hash * 0x9e3779b97f4a7c15;
}

// A key that fits a slot with one value and not with another is counted in both groups.
constexpr std::uint64_t kLooseHash = 0x9e3779b97f4a7c15;

}  // namespace

std::uint64_t KeyGroup::all_tuples() const {
    return total_of(tuples);
}
std::uint64_t KeyGroup::distinct() const {
    return total_of(keys);
}

std::uint64_t KeySample::tuples() const {
    std::uint64_t all = 0;
    for (const KeyGroup& group : groups) {
        all += group.all_tuples();
    }
    for (const LooseKeys& keys : loose) {
        all += keys.tuples;
    }
    return all;
}

KeyCounts KeySample::counts(const KeyGroup& group) const {
    return {.all = static_cast<double>(tuples()),
            .tuples = static_cast<double>(group.all_tuples()),
            .distinct = static_cast<double>(group.distinct()) * sketch.distinct(),
            .once = static_cast<double>(group.once) * sketch.once()};
}

KeyCounts KeySample::counts(const LooseKeys& keys) const {
    return {.all = static_cast<double>(tuples()),
            .tuples = static_cast<double>(keys.tuples),
            .distinct = static_cast<double>(keys.distinct) * sketch.distinct(),
            .once = static_cast<double>(keys.once) * sketch.once()};
}

Result<> validate(const KeySample& sample) {
    if (const std::uint64_t largest = largest_count(sample); largest > kMaxSampleCount) {
        return Error(Errc::kInput, "key sample: a count of " + std::to_string(largest) + ", the limit is " +
                                       std::to_string(kMaxSampleCount));
    }
    // What senders hold back adds up, as their counts do.
    const std::uint64_t most_held = Combiner::kMaxWindow * std::max<std::uint64_t>(1, sample.senders);
    if (sample.window > most_held) {
        return Error(Errc::kInput, "key sample: " + std::to_string(sample.window) +
                                       " tuples held back, the limit is " + std::to_string(most_held));
    }
    for (std::size_t i = 0; i < sample.groups.size(); ++i) {
        const KeyGroup& group = sample.groups[i];
        bool good = group.once <= group.distinct();
        for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
            good = good && fits(group.tuples[bucket], group.keys[bucket], 0);
        }
        if (!good) {
            return contradiction(std::to_string(i + 1) + " words", group.distinct(), group.once,
                                 group.all_tuples());
        }
    }
    for (const LooseKeys& keys : sample.loose) {
        if (!fits(keys.tuples, keys.distinct, keys.once)) {
            return contradiction("no slot", keys.distinct, keys.once, keys.tuples);
        }
    }
    return sample.tuples() > 0 ? Result<>() : Error(Errc::kInput, "key sample: no tuples");
}

void add_sample(KeySample& sum, const KeySample& sample) {
    if (sum.tuples() == 0) {
        sum = sample;
        return;
    }
    sum.expected = sum.expected == 0 || sample.expected == 0 ? 0 : sum.expected + sample.expected;
    for (std::size_t i = 0; i < sum.groups.size(); ++i) {
        sum.groups[i].once += sample.groups[i].once;
        add_buckets(sum.groups[i].tuples, sample.groups[i].tuples);
        add_buckets(sum.groups[i].keys, sample.groups[i].keys);
    }
    for (std::size_t i = 0; i < sum.loose.size(); ++i) {
        sum.loose[i].tuples += sample.loose[i].tuples;
        sum.loose[i].bytes += sample.loose[i].bytes;
        sum.loose[i].distinct += sample.loose[i].distinct;
        sum.loose[i].once += sample.loose[i].once;
    }
    sum.window += sample.window;
    sum.senders += sample.senders;
    sum.sketch.merge(sample.sketch);
}

// One that was taken for another's is new where there is no other.
void KeySampler::count_key(Seen seen, std::uint64_t hash, std::uint64_t& distinct, std::uint64_t& once) {
    if (seen == Seen::kNew || distinct == 0) {
        ++distinct;
        ++once;
        sample_.sketch.add(sketched(hash));
    } else if (seen == Seen::kTwice) {
        once -= once > 0 ? 1 : 0;
        sample_.sketch.again(sketched(hash));
    }
}

void KeySampler::add(std::string_view key, std::int64_t value) {
    if (full()) {
        return;
    }
    ++tuples_;
    if (form_of(key, value, kWidest) == Form::kLong) {
        add_loose(key);
        return;
    }
    KeyGroup& group = sample_.groups[(key.size() - 1) / ASK_KPART_BYTES];
    const std::uint64_t hash = key_hash(key);
    const unsigned bucket = SlotMap::bucket_of(hash);
    const Seen seen = see(keyed_hash(seed_, key));
    ++group.tuples[bucket];
    count_key(seen, hash, group.keys[bucket], group.once);
}

void KeySampler::add_loose(std::string_view key) {
    LooseKeys& keys = sample_.loose[loose_group(key)];
    const Seen seen = see(keyed_hash(seed_, key) ^ kLooseHash);
    ++keys.tuples;
    keys.bytes += key.size();
    count_key(seen, key_hash(key), keys.distinct, keys.once);
}

// Two keys of one part and neighbouring places count as one: one full sample in a thousand has such a pair.
KeySampler::Seen KeySampler::see(std::uint64_t hash) {
    if (seen_.empty()) {
        seen_.resize(kPlaces);
    }
    // None is 0.
    const std::uint32_t part = std::max(static_cast<std::uint32_t>(hash >> 32U) & kHashBits, kLeastPart);
    for (std::size_t i = 0; i <= kFarthest; ++i) {
        std::uint32_t& entry = seen_[(hash + i) % kPlaces];
        ++probes_;
        if (entry == 0) {
            entry = part | place_ << kPlaceShift;
            return Seen::kNew;
        }
        if ((entry & kHashBits) == part) {
            const bool elsewhere = place_ == 0 || (entry & kPlaceBits) != place_ << kPlaceShift;
            if (!elsewhere || (entry & kAgain) != 0) {
                return Seen::kOften;
            }
            entry |= kAgain;
            return Seen::kTwice;
        }
    }
    tuples_ = kMaxTuples;
    return Seen::kNew;
}

KeySample KeySampler::finish(std::uint64_t expected) {
    seen_ = {};
    sample_.expected = std::min(expected, kMaxSampleCount);
    return sample_;
}

}  // namespace ask
