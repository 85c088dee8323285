// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/key_sketch.h"

#include <algorithm>
#include <string>

namespace ask {
namespace {

constexpr std::uint64_t kCameAgain = 1;

}  // namespace

void KeySketch::cut(std::size_t most) {
    if (entries_.size() > most) {
        entries_.resize(most);
    }
    if (entries_.size() == most) {
        limit_ = std::min(limit_, entries_.back().hash);
    }
}

void KeySketch::add(std::uint64_t hash) {
    hash &= ~kCameAgain;
    if (hash > limit_) {
        return;
    }
    const auto at = std::ranges::lower_bound(entries_, hash, {}, &Entry::hash);
    if (at == entries_.end() || at->hash != hash) {
        entries_.insert(at, {.hash = hash});
        cut(kMost);
    }
}

void KeySketch::again(std::uint64_t hash) {
    hash &= ~kCameAgain;
    if (hash > limit_) {
        return;
    }
    const auto at = std::ranges::lower_bound(entries_, hash, {}, &Entry::hash);
    if (at != entries_.end() && at->hash == hash) {
        at->once = 0;
    }
}

void KeySketch::merge(const KeySketch& other) {
    limit_ = std::min(limit_, other.limit_);
    std::vector<Entry> all;
    all.reserve(entries_.size() + other.entries_.size());
    std::ranges::merge(entries_, other.entries_, std::back_inserter(all), {}, &Entry::hash, &Entry::hash);
    entries_.clear();
    for (const Entry& entry : all) {
        if (entry.hash > limit_) {
            break;
        }
        if (!entries_.empty() && entries_.back().hash == entry.hash) {
            entries_.back().samples += entry.samples;
            entries_.back().once += entry.once;
        } else {
            entries_.push_back(entry);
        }
    }
    cut(kMostOfAll);
}

double KeySketch::distinct() const {
    double counted = 0;
    for (const Entry& entry : entries_) {
        counted += entry.samples;
    }
    return counted == 0 ? 1 : static_cast<double>(entries_.size()) / counted;
}

double KeySketch::once() const {
    double counted = 0;
    double once = 0;
    for (const Entry& entry : entries_) {
        counted += entry.once;
        once += entry.samples == 1 ? entry.once : 0;
    }
    return counted == 0 ? 1 : once / counted;
}

std::vector<std::uint64_t> KeySketch::encode() const {
    std::vector<std::uint64_t> hashes;
    hashes.reserve(entries_.size());
    for (const Entry& entry : entries_) {
        hashes.push_back(entry.hash | (entry.once == 0 ? kCameAgain : 0));
    }
    return hashes;
}

Result<KeySketch> KeySketch::decode(const std::vector<std::uint64_t>& hashes) {
    if (hashes.size() > kMost) {
        return Error(Errc::kInput, "key sample: " + std::to_string(hashes.size()) + " hashes, the limit is " +
                                       std::to_string(kMost));
    }
    KeySketch sketch;
    for (const std::uint64_t hash : hashes) {
        const Entry entry{.hash = hash & ~kCameAgain, .once = (hash & kCameAgain) == 0 ? 1U : 0U};
        if (!sketch.entries_.empty() && sketch.entries_.back().hash >= entry.hash) {
            return Error(Errc::kInput, "key sample: its hashes are not in order");
        }
        sketch.entries_.push_back(entry);
    }
    sketch.cut(kMost);
    return sketch;
}

}  // namespace ask
