// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/back.h"

#include <endian.h>

#include <algorithm>
#include <bit>
#include <cmath>
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

// Without the zeros behind it.
std::size_t key_size(const std::byte* words, std::size_t bytes) {
    for (std::size_t end = bytes;; end -= sizeof(std::uint64_t)) {
        const std::uint64_t word = word_at(words + end - sizeof(word));
        if (word != 0 || end == sizeof(word)) {
            // The last byte in memory is the highest.
            return end - static_cast<std::size_t>(std::countl_zero(le64toh(word))) / 8;
        }
    }
}

// Whether some byte of the word is 0.
bool has_zero(std::uint64_t word) {
    constexpr std::uint64_t kOnes = ~std::uint64_t{0} / 0xff;
    return ((word - kOnes) & ~word & (kOnes << 7U)) != 0;
}

// Whether no byte of the first `size` is 0.
bool is_key(const std::byte* words, std::size_t size) {
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= size; at += sizeof(std::uint64_t)) {
        if (has_zero(word_at(words + at))) {
            return false;
        }
    }
    return at == size || !has_zero(word_at(words + at) | htole64(~std::uint64_t{0} << 8 * (size - at)));
}

// Bytes of a key's words, without those that pad it.
std::size_t own_words(const std::byte* words, std::size_t bytes) {
    while (bytes > sizeof(std::uint64_t) &&
           word_at(words + bytes - sizeof(std::uint64_t)) == ASK_BACK_PAD_WORD) {
        bytes -= sizeof(std::uint64_t);
    }
    return bytes;
}

// A key of a group as its words are in memory. Empty if it is none, or one that another group has.
std::string_view key_in(const std::byte* words, unsigned group) {
    const std::size_t bytes = own_words(words, kBackKeyBytes[group]);
    const std::size_t size = key_size(words, bytes);
    const std::size_t least =
        std::max<std::size_t>(group == ASK_BACK_8 ? 0 : kBackKeyBytes[group - 1], bytes - 8);
    return size > least && is_key(words, size) ? std::string_view(reinterpret_cast<const char*>(words), size)
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

BackSize measure_back(std::span<const std::byte> table, unsigned group) {
    BackSize size;
    const std::size_t bucket_bytes = kBackBucketBytes[group];
    for (std::size_t at = 0; at + bucket_bytes <= table.size(); at += bucket_bytes) {
        const std::byte* const bucket = table.data() + at;
        for (unsigned entry = 0; entry < kBackEntries[group]; ++entry) {
            const EntryPlace place = place_of(group, entry);
            const std::uint64_t live = word_at(bucket + place.value) & ASK_BACK_LIVE;
            size.entries += live;
            const std::byte* const words = bucket + place.key;
            size.key_bytes += live * key_size(words, own_words(words, kBackKeyBytes[group]));
        }
    }
    return size;
}

BackSize least_back_size(const BackSize& part, std::uint32_t looked, std::uint32_t buckets) {
    constexpr double kDeviations = 4;
    const auto seen = static_cast<double>(part.entries);
    const double surely = std::max(0.0, seen - kDeviations * std::sqrt(seen));
    const double share = looked == 0 ? 0 : surely * buckets / looked;
    return {.entries = static_cast<std::uint64_t>(share),
            .key_bytes = static_cast<std::uint64_t>(
                seen == 0 ? 0 : share * (static_cast<double>(part.key_bytes) / seen))};
}

Result<> BackWalker::fill_bucket(EntryWriter& out, const std::byte* bucket) {
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
            out.add(key, ASK_BACK_VALUE(value));
        }
    }
    return {};
}

Result<bool> BackWalker::fill(std::string& out, std::size_t soft_limit) {
    const std::size_t buckets = table_.size() / kBackBucketBytes[group_];
    EntryWriter writer(out);
    while (bucket_ < buckets) {
        ASK_PASS(fill_bucket(writer, table_.data() + bucket_ * kBackBucketBytes[group_]));
        ++bucket_;
        if (writer.size() >= soft_limit) {
            return true;
        }
    }
    return false;
}

}  // namespace ask
