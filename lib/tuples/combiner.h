// SPDX-License-Identifier: Apache-2.0
//
// Merges equal keys before they travel (design section 6: within a bounded window, never past int64): a table
// of so many tuples in sets of four, each set a line of the cache. A tuple that finds its key there is
// merged; a new one takes the last place of its set, and what stood there travels. Tuples that are merged
// into rise, one place at a time, so that keys that come often stay.
//
// Merging a tuple costs less than a tenth of sending it (docs/performance.md), so it pays unless hardly any
// key comes again while it is held; then tuples pass, and every now and then it is tried again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/tuples/keyed_hash.h"
#include "lib/tuples/tuple.h"
#include "lib/tuples/types.h"

namespace ask {

class Combiner {
 public:
    static constexpr std::uint32_t kMaxWindow = std::uint32_t{1} << 20;
    // Longer keys pass. Memory: 16 bytes a tuple of the window, and for those with keys of more than seven
    // bytes the key and 16 more.
    static constexpr std::size_t kMaxKey = 256;
    // It pays if one tuple is merged for so many that are not.
    static constexpr std::uint64_t kWorth = 8;

    // What of a window an input of about `expected` tuples, 0 if nobody knows, can make use of: memory that
    // is not touched need not be had. Twice as many, since sets fill unevenly and a guess may be low.
    [[nodiscard]] static std::uint32_t useful(std::uint32_t window, std::uint64_t expected);

    // Room for `window` tuples, 1 to kMaxWindow, rounded up to a power of two of at least four. Whoever knows
    // `seed` can choose keys that crowd into one set, where hardly any is merged.
    Combiner(Op op, std::uint32_t window, const HashSeed& seed);

    // Takes tuples in. Calls `out(tuple)`, which returns Result<>, for each that has to travel now; ends
    // at its first error. The tuples that `out` gets are borrowed for the call.
    template <typename Out>
    Result<> add(std::span<const Tuple> tuples, Out&& out);
    // Gives out all tuples that are held.
    template <typename Out>
    Result<> drain(Out&& out);

    // Tuples merged into others so far: they never travel.
    [[nodiscard]] std::uint64_t merged() const { return merged_; }

 private:
    static constexpr std::uint32_t kWays = 4;
    static constexpr std::size_t kBatch = 32;
    // One in so many merged tuples rises.
    static constexpr std::uint64_t kRise = 8;
    // Tuples between two looks at whether it pays; and how many then pass if it does not.
    static constexpr std::uint32_t kTrial = std::uint32_t{1} << 16;
    static constexpr std::uint32_t kPause = 15 * kTrial;

    // A key of up to seven bytes is its tag, with its size; of others it is a hash, and the upper byte says
    // so. 0: free.
    using Tag = std::uint64_t;
    static constexpr std::size_t kTagBytes = 7;
    static constexpr unsigned kSizeShift = 56;
    static constexpr Tag kLongTag = Tag{0xff} << kSizeShift;

    struct alignas(64) Set {
        std::array<Tag, kWays> tags{};
        std::array<std::int64_t, kWays> values{};
    };
    struct LongKey {
        std::unique_ptr<char[]> bytes;
        std::uint16_t size = 0;
        std::uint16_t room = 0;
    };

    [[nodiscard]] Tag tag_of(const Tuple& tuple) const {
        return tuple.key.size() <= kTagBytes ? tuple.head | Tag{tuple.key.size() + 1} << kSizeShift
                                             : keyed_hash(seed_, tuple.key) | kLongTag;
    }
    [[nodiscard]] std::uint32_t set_of(Tag tag) const {
        return static_cast<std::uint32_t>(detail::fold(tag ^ seed_.words[0], seed_.words[1])) & mask_;
    }
    [[nodiscard]] static std::size_t place(std::uint32_t set, std::uint32_t way) {
        return std::size_t{set} * kWays + way;
    }
    [[nodiscard]] static std::uint32_t find(const Set& set, Tag tag);
    [[nodiscard]] std::uint32_t find_long(std::uint32_t set, Tag tag, std::string_view key) const;
    [[nodiscard]] std::string_view key_of(const Set& set, std::uint32_t way, std::size_t place) const;
    [[nodiscard]] Tuple tuple_of(const Set& set, std::uint32_t way, std::size_t place) const;
    // False if the sum would leave int64.
    [[nodiscard]] bool merge(std::int64_t& held, std::int64_t value) const;
    void count_merged(std::uint32_t set, std::uint32_t way);
    void exchange(std::uint32_t set, std::uint32_t way, std::uint32_t other);
    void put(std::uint32_t set, std::uint32_t way, Tag tag, const Tuple& tuple);
    void keep_key(std::size_t place, std::string_view key);
    void judge();

    template <typename Out>
    Result<> add_other(const Tuple& tuple, Tag tag, std::uint32_t set, Out& out);
    template <typename Out>
    Result<> add_batch(std::span<const Tuple> batch, Out& out);

    Op op_;
    std::vector<Set> sets_;
    std::uint32_t mask_;
    HashSeed seed_;
    std::vector<LongKey> long_keys_;  // by place; had with the first long key
    std::uint64_t merged_ = 0;
    std::uint64_t merged_before_ = 0;  // as the trial began
    std::uint64_t given_out_ = 0;      // in this trial
    std::uint32_t left_ = kTrial;      // tuples of it to come
    bool pausing_ = false;
};

// The way of a set that holds the tag, or kWays. All are compared without a branch: which of them it is
// cannot be predicted.
inline std::uint32_t Combiner::find(const Set& set, Tag tag) {
    std::uint32_t found = 1U << kWays;
#pragma GCC unroll 4
    for (std::uint32_t way = 0; way < kWays; ++way) {
        found |= static_cast<std::uint32_t>(set.tags[way] == tag) << way;
    }
    return static_cast<std::uint32_t>(std::countr_zero(found));
}

inline bool Combiner::merge(std::int64_t& held, std::int64_t value) const {
    if (op_ != Op::kSum) {
        held = static_cast<std::int64_t>(apply(op_, held, value));
    } else if (__builtin_add_overflow(held, value, &value)) {
        return false;
    } else {
        held = value;
    }
    return true;
}

inline void Combiner::count_merged(std::uint32_t set, std::uint32_t way) {
    ++merged_;
    if (merged_ % kRise == 0 && way > 0) {
        exchange(set, way, way - 1);
    }
}

// A tuple that is not simply merged: its key is long or not held, or the sum would leave int64.
template <typename Out>
Result<> Combiner::add_other(const Tuple& tuple, Tag tag, std::uint32_t set, Out& out) {
    Set& held = sets_[set];
    const std::uint32_t way = tag < kLongTag ? find(held, tag) : find_long(set, tag, tuple.key);
    if (way < kWays) {
        if (merge(held.values[way], tuple.value)) {
            count_merged(set, way);
            return {};
        }
        ++given_out_;
        Tuple gone = tuple;
        gone.value = std::exchange(held.values[way], tuple.value);
        return out(gone);
    }
    const std::uint32_t free = find(held, 0);
    if (free < kWays) {
        put(set, free, tag, tuple);
        return {};
    }
    ++given_out_;
    const std::uint32_t last = kWays - 1;
    // Now and then those before it move back by one: else keys that no longer come would keep their places
    // while new ones take the last from each other.
    const auto back = static_cast<std::uint32_t>(std::countr_zero(given_out_)) / 2;
    for (std::uint32_t at = last - std::min(back, last); at < last; ++at) {
        exchange(set, at, last);
    }
    Result<> gone = out(tuple_of(held, last, place(set, last)));
    put(set, last, tag, tuple);
    return gone;
}

template <typename Out>
Result<> Combiner::add_batch(std::span<const Tuple> batch, Out& out) {
    std::array<Tag, kBatch> tags;
    std::array<std::uint32_t, kBatch> places;
    Set* const sets = sets_.data();
    // All sets are asked for before the first is needed: a large table is in no near cache.
    for (std::size_t i = 0; i < batch.size(); ++i) {
        tags[i] = tag_of(batch[i]);
        places[i] = set_of(tags[i]);
        __builtin_prefetch(&sets[places[i]], 1);
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
        Set& set = sets[places[i]];
        const std::uint32_t way = find(set, tags[i]);
        if (way < kWays && tags[i] < kLongTag && merge(set.values[way], batch[i].value)) {
            count_merged(places[i], way);
            continue;
        }
        const bool passes = batch[i].key.size() > kMaxKey;
        ASK_PASS(passes ? out(batch[i]) : add_other(batch[i], tags[i], places[i], out));
    }
    return {};
}

template <typename Out>
Result<> Combiner::add(std::span<const Tuple> tuples, Out&& out) {
    while (!tuples.empty()) {
        const auto batch = tuples.first(std::min({tuples.size(), kBatch, std::size_t{left_}}));
        tuples = tuples.subspan(batch.size());
        left_ -= static_cast<std::uint32_t>(batch.size());
        if (!pausing_) {
            ASK_PASS(add_batch(batch, out));
        } else {
            for (const Tuple& tuple : batch) {
                ASK_PASS(out(tuple));
            }
        }
        if (left_ == 0) {
            judge();
        }
    }
    return {};
}

template <typename Out>
Result<> Combiner::drain(Out&& out) {
    for (std::uint32_t set = 0; set < sets_.size(); ++set) {
        for (std::uint32_t way = 0; way < kWays && sets_[set].tags[way] != 0; ++way) {
            ASK_PASS(out(tuple_of(sets_[set], way, place(set, way))));
            sets_[set].tags[way] = 0;
        }
    }
    return {};
}

}  // namespace ask
