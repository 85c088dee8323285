// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/back.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "lib/tuples/fetch_codec.h"

namespace ask {
namespace {

// Entries for so many keys, at least: a load of .5 or .4 (docs/decisions/0021).
struct Room {
    std::uint64_t entries;
    std::uint64_t keys;
};
constexpr std::array<Room, ASK_BACK_GROUPS> kRoom{{{2, 1}, {2, 1}, {5, 2}, {5, 2}}};
constexpr std::uint64_t kLeastPart = 16;

// The next of the sizes up, or `buckets` itself if it is one.
std::uint64_t size_from(std::uint64_t buckets) {
    const std::uint64_t power = std::bit_ceil(buckets);
    const std::uint64_t between = power / 4 * 3;
    return std::clamp<std::uint64_t>(between >= buckets ? between : power, kLeastBackBuckets,
                                     ASK_BACK_MAX_BUCKETS);
}

// The next of them down; 0 below the smallest.
std::uint32_t smaller(std::uint32_t buckets) {
    if (buckets <= kLeastBackBuckets) {
        return 0;
    }
    return std::has_single_bit(buckets) ? buckets / 4 * 3 : buckets / 3 * 2;
}

std::uint64_t word_at(const std::byte* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    return word;
}

// A key of a group as its words are in memory. Empty if it is none, or one that another group has.
std::string_view key_in(const std::byte* words, unsigned group) {
    std::size_t bytes = kBackKeyBytes[group];
    while (bytes > sizeof(std::uint64_t) &&
           word_at(words + bytes - sizeof(std::uint64_t)) == ASK_BACK_PAD_WORD) {
        bytes -= sizeof(std::uint64_t);
    }
    const std::string_view all(reinterpret_cast<const char*>(words), bytes);
    const std::string_view key = all.substr(0, all.find('\0'));
    const bool is_whole = all.find_first_not_of('\0', key.size()) == std::string_view::npos &&
                          key.size() + sizeof(std::uint64_t) > bytes;
    return is_whole && (group == ASK_BACK_8 || key.size() > kBackKeyBytes[group - 1]) ? key
                                                                                      : std::string_view();
}

struct EntryPlace {
    std::size_t key = 0;  // offsets in the bucket, bytes
    std::size_t value = 0;
};

EntryPlace place_of(unsigned group, unsigned entry) {
    if (group == ASK_BACK_8) {
        return {offsetof(ask_back8, key) + entry * sizeof(std::uint64_t),
                offsetof(ask_back8, value) + entry * sizeof(std::uint64_t)};
    }
    // Those with tags differ in their keys' lengths alone.
    const std::size_t at = sizeof(std::uint64_t) + entry * (kBackKeyBytes[group] + sizeof(std::uint64_t));
    return {at, at + kBackKeyBytes[group]};
}

}  // namespace

std::uint64_t back_bytes(const BackBuckets& buckets) {
    std::uint64_t bytes = 0;
    for (unsigned group = 0; group < buckets.size(); ++group) {
        bytes += std::uint64_t{buckets[group]} * kBackBucketBytes[group];
    }
    return bytes;
}

BackBuckets back_for(const BackKeys& keys) {
    BackBuckets buckets{};
    for (unsigned group = 0; group < buckets.size(); ++group) {
        const std::uint64_t most = std::uint64_t{ASK_BACK_MAX_BUCKETS} * kBackEntries[group];
        const std::uint64_t parts = std::min(keys[group], most) * kRoom[group].entries;
        const std::uint64_t bucket = kBackEntries[group] * kRoom[group].keys;
        buckets[group] =
            parts == 0 ? 0 : static_cast<std::uint32_t>(size_from((parts + bucket - 1) / bucket));
    }
    return buckets;
}

BackBuckets back_within(const BackBuckets& wanted, std::uint64_t bytes) {
    BackBuckets buckets = wanted;
    while (back_bytes(buckets) > bytes) {
        for (std::uint32_t& group : buckets) {
            const std::uint32_t less = smaller(group);
            if (group != 0 && less == 0) {
                return {};
            }
            group = less;
        }
    }
    return back_bytes(buckets) * kLeastPart < back_bytes(wanted) ? BackBuckets{} : buckets;
}

Result<> BackWalker::fill_bucket(std::string& out, const std::byte* bucket) {
    for (unsigned entry = 0; entry < kBackEntries[group_]; ++entry) {
        const EntryPlace place = place_of(group_, entry);
        const std::uint64_t value = word_at(bucket + place.value);
        if ((value & ASK_BACK_LIVE) == 0) {
            continue;
        }
        const std::string_view key = key_in(bucket + place.key, group_);
        if (key.empty()) {
            return Error(Errc::kInternal, "back level, keys of up to " +
                                              std::to_string(kBackKeyBytes[group_]) + " bytes, bucket " +
                                              std::to_string(bucket_) +
                                              ": holds words that no sender writes");
        }
        if (++count_ > skip_) {
            append_entry(out, key, ASK_BACK_VALUE(value));
        }
    }
    return {};
}

Result<bool> BackWalker::fill(std::string& out, std::size_t soft_limit) {
    const std::size_t buckets = table_.size() / kBackBucketBytes[group_];
    while (bucket_ < buckets) {
        ASK_PASS(fill_bucket(out, table_.data() + bucket_ * kBackBucketBytes[group_]));
        ++bucket_;
        if (out.size() >= soft_limit) {
            return true;
        }
    }
    return false;
}

}  // namespace ask
