// SPDX-License-Identifier: Apache-2.0
//
// How many keys find a place where each may be in a few buckets and nobody ever moves: the back level's rule
// (lib/abi/back.h), and with buckets of one place a front's. A model, to tell what its hashing costs from
// anything else that keeps a key out.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/abi/back.h"

namespace ask::bench {

struct BucketRule {
    std::uint64_t buckets = 1;
    std::uint32_t places = ASK_BACK8_ENTRIES;  // of a bucket
    std::uint32_t candidates = ASK_BACK_CANDIDATES;
};

// Of `keys` that come one after another, those that are kept.
[[nodiscard]] inline std::uint64_t keys_kept(const BucketRule& rule, std::uint64_t keys) {
    __extension__ using Product = unsigned __int128;
    std::vector<std::uint32_t> held(rule.buckets);
    std::uint64_t kept = 0;
    for (std::uint64_t key = 1; key <= keys; ++key) {
        std::uint64_t hash = ask_back_mix(key);
        for (std::uint32_t candidate = 0; candidate < rule.candidates; ++candidate) {
            std::uint32_t& bucket = held[static_cast<std::uint64_t>(Product{hash} * rule.buckets >> 64U)];
            if (bucket < rule.places) {
                ++bucket;
                ++kept;
                break;
            }
            hash = ask_back_next(1, hash);
        }
    }
    return kept;
}

}  // namespace ask::bench
