// SPDX-License-Identifier: Apache-2.0
//
// The hash by which a host's tables of keys choose places. Keys come from outside, and whoever knew the hash
// could choose them to lie in one place: so it is keyed by a seed that nobody knows. Where hosts must agree,
// on the slot of a key, the public hash of key_hash.h serves (docs/decisions/0018-seeded-tables.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/base/bytes.h"
#include "lib/tuples/key_hash.h"

namespace ask {

struct HashSeed {
    std::array<std::uint64_t, 4> words;
};

// Of what `draw` gives: lib/base/random.h's, where it is to be a secret.
[[nodiscard]] inline HashSeed make_seed(std::uint64_t (*draw)()) {
    return {{draw(), draw(), draw(), draw()}};
}

// The seed of that number, which anybody can know: for tests and the simulator.
[[nodiscard]] constexpr HashSeed public_seed(std::uint64_t number) {
    HashSeed seed{};
    for (std::uint64_t& word : seed.words) {
        number += 0x9e3779b97f4a7c15ULL;
        word = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
        word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
        word ^= word >> 31;
    }
    return seed;
}

namespace detail {

// Each block is added to half of the seed and multiplied out to all 128 bits, as NH does: two keys that
// differ in it keep apart but for one seed in 2^64. The seed is in both factors of every product, so nobody
// can make one of them zero.
class KeyedState {
 public:
    explicit KeyedState(const HashSeed& seed) : seed_(seed.words) {}

    void add(std::uint64_t first, std::uint64_t second) {
        const U128 product = U128{first + (low_ ^ seed_[0])} * (second + (high_ ^ seed_[1]));
        low_ = static_cast<std::uint64_t>(product);
        high_ = static_cast<std::uint64_t>(product >> 64);
    }
    [[nodiscard]] std::uint64_t finish(std::size_t size) const {
        return fold(low_ ^ seed_[2], (high_ + size) ^ seed_[3]);
    }

 private:
    const std::array<std::uint64_t, 4>& seed_;
    std::uint64_t low_ = 0;
    std::uint64_t high_ = 0;
};

}  // namespace detail

[[nodiscard]] inline std::uint64_t keyed_hash(const HashSeed& seed, std::string_view key) {
    detail::KeyedState state(seed);
    if (key.size() <= SmallKey::kBytes) {
        const SmallKey small = SmallKey::of(key);
        state.add(small.low, small.high);
        return state.finish(key.size());
    }
    const char* const last = key.data() + key.size() - SmallKey::kBytes;
    for (const char* at = key.data(); at < last; at += SmallKey::kBytes) {
        state.add(load_raw<std::uint64_t>(at), load_raw<std::uint64_t>(at + 8));
    }
    state.add(load_raw<std::uint64_t>(last), load_raw<std::uint64_t>(last + 8));
    return state.finish(key.size());
}

}  // namespace ask
