// SPDX-License-Identifier: Apache-2.0
//
// The back level of a switch (lib/abi/back.h, SwitchAgg section 4) as user space sees it: how large it is for
// so many keys, and what is in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>

#include "lib/abi/back.h"
#include "lib/base/result.h"
#include "lib/tuples/fetch_codec.h"

namespace ask {

// By enum ask_back_group.
using BackBuckets = std::array<std::uint32_t, ASK_BACK_GROUPS>;  // 0: the group has no table
using BackKeys = std::array<std::uint64_t, ASK_BACK_GROUPS>;     // different keys of the group's lengths

// What a task asks its switch for.
struct BackWish {
    bool wanted = false;
    BackKeys keys{};     // as far as is known
    bool guess = false;  // nobody knows how many more there are, and of which lengths
    bool operator==(const BackWish&) const = default;
};

inline constexpr std::array<std::uint32_t, ASK_BACK_GROUPS> kBackBucketBytes{
    sizeof(ask_back8), sizeof(ask_back16), sizeof(ask_back32), sizeof(ask_back64)};
inline constexpr std::array<std::uint32_t, ASK_BACK_GROUPS> kBackEntries{
    ASK_BACK8_ENTRIES, ASK_BACK16_ENTRIES, ASK_BACK32_ENTRIES, ASK_BACK64_ENTRIES};
// Longest key of each group, bytes.
inline constexpr std::array<std::uint32_t, ASK_BACK_GROUPS> kBackKeyBytes{8, 16, 32, ASK_VAR_MAX_KEY};
// What each group's maps are called, those of the program and the pins of a task.
inline constexpr std::array<const char*, ASK_BACK_GROUPS> kBackNames{"back8", "back16", "back32", "back64"};

// Entries of all groups together, at most.
inline constexpr std::uint64_t kMostBackEntries =
    ASK_BACK_MAX_BUCKETS * std::accumulate(kBackEntries.begin(), kBackEntries.end(), std::uint64_t{0});

// Buckets of the smallest table that is made.
inline constexpr std::uint32_t kLeastBackBuckets = 64;

[[nodiscard]] std::uint64_t back_bytes(const BackBuckets& buckets);
// For so many keys: a table no more than half full, or two fifths where a bucket has three entries, in which
// one key in a thousand finds no place. 2^n or 1.5 * 2^n buckets, so that memory that one task has given
// back does for another. 0 for none.
[[nodiscard]] BackBuckets back_for(const BackKeys& keys);
// The largest of those sizes that is within `bytes`, each group having its part; zeros if it would be less
// than a sixteenth of what is wanted, or than the smallest.
[[nodiscard]] BackBuckets back_within(const BackBuckets& wanted, std::uint64_t bytes);

// What a receiver needs room for.
struct BackSize {
    std::uint64_t entries = 0;
    std::uint64_t key_bytes = 0;
    bool operator==(const BackSize&) const = default;
};
// Of one group's table, to which nobody writes any more.
[[nodiscard]] BackSize measure_back(std::span<const std::byte> table, unsigned group);
// What a whole table has at least by now, of which `part` is what the first `looked` of its `buckets` have:
// keys fall into them by chance, and it has fewer one time in 30000. Programs may be writing to it.
[[nodiscard]] BackSize least_back_size(const BackSize& part, std::uint32_t looked, std::uint32_t buckets);

// Walks one group's table. Nobody writes to it any more.
class BackWalker {
 public:
    // The first `skip` entries are counted and not written.
    BackWalker(std::span<const std::byte> table, unsigned group, std::uint64_t skip = 0)
        : table_(table), group_(group), skip_(skip) {}
    // Appends entries (lib/tuples/fetch_codec.h) to `out` until it holds `soft_limit` bytes or the table is
    // done; those of a bucket in one call. False when done. kInternal: a key that no sender writes.
    Result<bool> fill(std::string& out, std::size_t soft_limit);
    // Entries so far. A key may have several.
    [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
    Result<> fill_bucket(EntryWriter& out, const std::byte* bucket);

    std::span<const std::byte> table_;
    unsigned group_;
    std::uint64_t skip_;
    std::size_t bucket_ = 0;
    std::uint64_t count_ = 0;
};

}  // namespace ask
