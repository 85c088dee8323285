// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/combiner.h"

namespace ask {

namespace {

// Memory of keys comes in pieces of so many bytes, so that most new keys find room where an old one was.
constexpr std::size_t kKeyRoom = 32;

}  // namespace

std::uint32_t Combiner::useful(std::uint32_t window, std::uint64_t expected) {
    const std::uint32_t most = std::min(window, kMaxWindow);
    return expected == 0 || expected >= most ? most
                                             : std::min(most, 2 * static_cast<std::uint32_t>(expected));
}

Combiner::Combiner(Op op, std::uint32_t window, const HashSeed& seed)
    : op_(op),
      sets_(std::bit_ceil((std::clamp(window, std::uint32_t{1}, kMaxWindow) + kWays - 1) / kWays)),
      mask_(static_cast<std::uint32_t>(sets_.size() - 1)),
      seed_(seed) {}

std::string_view Combiner::key_of(const Set& set, std::uint32_t way, std::size_t place) const {
    const Tag& tag = set.tags[way];
    if (tag >= kLongTag) {
        return {long_keys_[place].bytes.get(), long_keys_[place].size};
    }
    return {reinterpret_cast<const char*>(&tag), (tag >> kSizeShift) - 1};
}

Tuple Combiner::tuple_of(const Set& set, std::uint32_t way, std::size_t place) const {
    const std::string_view key = key_of(set, way, place);
    // A short one is in a tag, which can be read as a whole.
    return {key, set.values[way], key.data() + std::max(key.size(), sizeof(Tag))};
}

std::uint32_t Combiner::find_long(std::uint32_t set, Tag tag, std::string_view key) const {
    const Set& held = sets_[set];
    for (std::uint32_t way = 0; way < kWays; ++way) {
        if (held.tags[way] == tag && key_of(held, way, place(set, way)) == key) {
            return way;
        }
    }
    return kWays;
}

void Combiner::put(std::uint32_t set, std::uint32_t way, Tag tag, const Tuple& tuple) {
    sets_[set].tags[way] = tag;
    sets_[set].values[way] = tuple.value;
    if (tag >= kLongTag) {
        keep_key(place(set, way), tuple.key);
    }
}

void Combiner::keep_key(std::size_t place, std::string_view key) {
    if (long_keys_.empty()) {
        long_keys_.resize(sets_.size() * kWays);
    }
    LongKey& kept = long_keys_[place];
    if (kept.room < key.size()) {
        kept.room = static_cast<std::uint16_t>((key.size() + kKeyRoom - 1) / kKeyRoom * kKeyRoom);
        kept.bytes = std::make_unique_for_overwrite<char[]>(kept.room);
    }
    kept.size = static_cast<std::uint16_t>(key.size());
    std::ranges::copy(key, kept.bytes.get());
}

void Combiner::exchange(std::uint32_t set, std::uint32_t way, std::uint32_t other) {
    Set& held = sets_[set];
    std::swap(held.tags[way], held.tags[other]);
    std::swap(held.values[way], held.values[other]);
    if (!long_keys_.empty()) {
        std::swap(long_keys_[place(set, way)], long_keys_[place(set, other)]);
    }
}

void Combiner::judge() {
    const bool worth = pausing_ || (merged_ - merged_before_) * kWorth >= given_out_;
    pausing_ = !worth;
    left_ = pausing_ ? kPause : kTrial;
    merged_before_ = merged_;
    given_out_ = 0;
}

}  // namespace ask
