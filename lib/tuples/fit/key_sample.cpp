// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/key_sample.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "lib/tuples/key_hash.h"
#include "lib/tuples/packer.h"

namespace ask {

namespace {

// A geometry whose slots take every key that any slot takes.
constexpr Geometry kWidest{.short_slots = 1, .groups = 1, .m = ASK_MAX_M, .rows = 1};

// Places for halves of hashes, chosen by the other half; half of them at most are taken. The lowest bit says
// that a key came again; 0 is a free place.
constexpr std::size_t kPlaces = std::size_t{2} * KeySampler::kMaxTuples;
constexpr std::uint32_t kAgain = 1;
// A key that finds its place further away ends the sample. By chance none does.
constexpr std::size_t kFarthest = 512;

}  // namespace

std::uint64_t KeyGroup::all_tuples() const {
    return std::accumulate(tuples.begin(), tuples.end(), std::uint64_t{0});
}

std::uint64_t KeySample::tuples() const {
    return std::accumulate(groups.begin(), groups.end(), long_tuples,
                           [](std::uint64_t sum, const KeyGroup& group) { return sum + group.all_tuples(); });
}

Result<> validate(const KeySample& sample) {
    std::uint64_t largest = std::max({sample.long_tuples, sample.long_bytes, sample.expected});
    for (std::size_t i = 0; i < sample.groups.size(); ++i) {
        const KeyGroup& group = sample.groups[i];
        largest = std::max(largest, std::ranges::max(group.tuples));
        if (group.once > group.distinct || group.distinct > group.all_tuples() ||
            (group.distinct == 0 && group.all_tuples() > 0)) {
            return Error(Errc::kInput, "key sample: keys of " + std::to_string(i + 1) +
                                           " words: " + std::to_string(group.distinct) + " different ones, " +
                                           std::to_string(group.once) + " of them once, in " +
                                           std::to_string(group.all_tuples()) + " tuples");
        }
    }
    if (largest > kMaxSampleCount) {
        return Error(Errc::kInput, "key sample: a count of " + std::to_string(largest) + ", the limit is " +
                                       std::to_string(kMaxSampleCount));
    }
    return sample.tuples() > 0 ? Result<>() : Error(Errc::kInput, "key sample: no tuples");
}

void add_sample(KeySample& sum, const KeySample& sample) {
    const bool unknown = sample.expected == 0 || (sum.expected == 0 && sum.tuples() > 0);
    sum.expected = unknown ? 0 : sum.expected + sample.expected;
    for (std::size_t i = 0; i < sum.groups.size(); ++i) {
        KeyGroup& group = sum.groups[i];
        group.distinct += sample.groups[i].distinct;
        group.once += sample.groups[i].once;
        std::ranges::transform(group.tuples, sample.groups[i].tuples, group.tuples.begin(), std::plus<>());
    }
    sum.long_tuples += sample.long_tuples;
    sum.long_bytes += sample.long_bytes;
}

void KeySampler::add(std::string_view key, std::int64_t value) {
    if (full()) {
        return;
    }
    ++tuples_;
    if (form_of(key, value, kWidest) == Form::kLong) {
        ++sample_.long_tuples;
        sample_.long_bytes += key.size();
        return;
    }
    const std::size_t group = (key.size() - 1) / ASK_KPART_BYTES;
    ++sample_.groups[group].tuples[SlotMap::bucket_of(key_hash(key))];
    count(sample_.groups[group], keyed_hash(seed_, key));
}

// Two keys of one half and neighbouring places count as one: one full sample in tens of thousands has such a
// pair.
void KeySampler::count(KeyGroup& group, std::uint64_t hash) {
    if (seen_.empty()) {
        seen_.resize(kPlaces);
    }
    const std::uint32_t entry = std::max(static_cast<std::uint32_t>(hash >> 32U) & ~kAgain, 2 * kAgain);
    for (std::size_t i = 0; i <= kFarthest; ++i) {
        std::uint32_t& place = seen_[(hash + i) % kPlaces];
        ++probes_;
        if (place == 0) {
            place = entry;
            ++group.distinct;
            ++group.once;
            return;
        }
        if ((place & ~kAgain) == entry) {
            group.once -= (place & kAgain) == 0 ? 1 : 0;
            place |= kAgain;
            return;
        }
    }
    ++group.distinct;
    ++group.once;
    tuples_ = kMaxTuples;
}

KeySample KeySampler::finish(std::uint64_t expected) {
    seen_ = {};
    sample_.expected = std::min(expected, kMaxSampleCount);
    return sample_;
}

}  // namespace ask
