// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/merging.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lib/tuples/combiner.h"
#include "lib/tuples/fit/growth.h"

namespace ask {
namespace {

// Of a combiner's places, those that do not wait for a key while others of their set would need them.
constexpr double kHeld = 0.9;

std::uint64_t rounded(double count) {
    return static_cast<std::uint64_t>(
        std::llround(std::clamp(count, 0.0, static_cast<double>(kMaxSampleCount))));
}

// How a class of keys grows in the input of the average sender, and in all of them as one.
struct Class {
    Growth own;
    Growth all;
};

// What travels of one class of keys.
struct Left {
    double tuples = 0;
    double distinct = 0;
    double once = 0;
};

// An input as the average sender has it.
class Merging {
 public:
    Merging(const KeySample& sample, std::uint32_t senders)
        : sampled_(static_cast<double>(sample.senders)),
          senders_(senders),
          tuples_(static_cast<double>(sample.tuples()) / sampled_),
          input_(std::max(tuples_, sample.expected == 0 ? static_cast<double>(kUnknownLength)
                                                        : static_cast<double>(sample.expected) / senders_)) {
        for (std::size_t i = 0; i < groups_.size(); ++i) {
            const KeyGroup& group = sample.groups[i];
            groups_[i] = {growth(group.all_tuples(), group.distinct(), group.once),
                          Growth::fit(sample.counts(group))};
        }
        for (std::size_t i = 0; i < loose_.size(); ++i) {
            const LooseKeys& keys = sample.loose[i];
            loose_[i] = {growth(keys.tuples, keys.distinct, keys.once), Growth::fit(sample.counts(keys))};
        }
        span_ = span(kHeld * static_cast<double>(sample.window) / sampled_);
    }

    [[nodiscard]] Left group(std::size_t i) const { return left(groups_[i]); }
    [[nodiscard]] Left loose(std::size_t i) const { return left(loose_[i]); }
    // The combiner passes tuples on where it merges fewer.
    [[nodiscard]] bool worth() const {
        const double travel = travelling();
        return (input_ - travel) * static_cast<double>(Combiner::kWorth) >= travel;
    }

 private:
    [[nodiscard]] Growth growth(std::uint64_t tuples, std::uint64_t distinct, std::uint64_t once) const {
        return Growth::fit({.all = tuples_,
                            .tuples = static_cast<double>(tuples) / sampled_,
                            .distinct = static_cast<double>(distinct) / sampled_,
                            .once = static_cast<double>(once) / sampled_});
    }
    [[nodiscard]] double distinct(double t) const {
        const auto add = [t](double sum, const Class& keys) { return sum + keys.own.distinct(t); };
        return std::accumulate(loose_.begin(), loose_.end(),
                               std::accumulate(groups_.begin(), groups_.end(), 0.0, add), add);
    }
    // How many tuples in a row have so many different keys, or all there are.
    [[nodiscard]] double span(double keys) const {
        if (distinct(input_) <= keys) {
            return input_;
        }
        double low = 0;
        double high = std::log2(input_);
        for (int i = 0; i < 40; ++i) {
            const double middle = (low + high) / 2;
            (distinct(std::exp2(middle)) < keys ? low : high) = middle;
        }
        return std::exp2(low);
    }
    [[nodiscard]] double travels(const Class& keys) const {
        return keys.own.distinct(span_) + (input_ - span_) * keys.own.rate(span_);
    }
    [[nodiscard]] double travelling() const {
        const auto add = [this](double sum, const Class& keys) { return sum + travels(keys); };
        return std::accumulate(loose_.begin(), loose_.end(),
                               std::accumulate(groups_.begin(), groups_.end(), 0.0, add), add);
    }
    [[nodiscard]] Left left(const Class& keys) const {
        const double inputs = senders_ * input_;
        Left out{.tuples = senders_ * travels(keys)};
        out.distinct = std::min(keys.all.distinct(inputs), out.tuples);
        // Keys that came once travel once; and each tuple more than there are keys is one of them again.
        out.once =
            std::min(std::max(inputs * keys.all.rate(inputs), 2 * out.distinct - out.tuples), out.distinct);
        return out;
    }

    double sampled_;
    double senders_;
    double tuples_;  // of the sample
    double input_;   // tuples of the whole input
    std::array<Class, ASK_MAX_M> groups_;
    std::array<Class, KeySample::kLooseGroups> loose_;
    double span_ = 0;
};

// `known`: keys of the class that were sampled.
KeyGroup spread(const KeyGroup& sampled, double known, const Left& left) {
    KeyGroup out;
    if (known <= 0) {
        return out;
    }
    const double scale = known / static_cast<double>(sampled.distinct());
    const double unseen = std::max(left.distinct - known, 0.0) / SlotMap::kBuckets;
    const double all = known + unseen * SlotMap::kBuckets;
    for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
        const double part = (static_cast<double>(sampled.keys[bucket]) * scale + unseen) / all;
        out.tuples[bucket] = rounded(left.tuples * part);
        out.keys[bucket] = std::clamp<std::uint64_t>(rounded(left.distinct * part),
                                                     out.tuples[bucket] > 0 ? 1 : 0, out.tuples[bucket]);
    }
    out.once = std::min(rounded(left.once), out.distinct());
    return out;
}

LooseKeys spread(const LooseKeys& sampled, const Left& left) {
    LooseKeys out{.tuples = rounded(left.tuples)};
    if (out.tuples == 0) {
        return out;
    }
    out.bytes =
        rounded(static_cast<double>(sampled.bytes) / static_cast<double>(sampled.tuples) * left.tuples);
    out.distinct = std::clamp<std::uint64_t>(rounded(left.distinct), 1, out.tuples);
    out.once = std::min(rounded(left.once), out.distinct);
    return out;
}

}  // namespace

KeySample after_merging(const KeySample& sample, std::uint32_t senders) {
    if (sample.window == 0) {
        return sample;
    }
    const Merging merging(sample, senders);
    if (!merging.worth()) {
        return sample;
    }
    KeySample out{.senders = senders};
    for (std::size_t i = 0; i < out.groups.size(); ++i) {
        out.groups[i] = spread(sample.groups[i], sample.counts(sample.groups[i]).distinct, merging.group(i));
    }
    for (std::size_t i = 0; i < out.loose.size(); ++i) {
        out.loose[i] = spread(sample.loose[i], merging.loose(i));
    }
    out.expected = std::min(out.tuples(), kMaxSampleCount);
    return out;
}

}  // namespace ask
