// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/back_need.h"

#include <cmath>
#include <random>
#include <string>
#include <unordered_set>

#include <doctest/doctest.h>

using namespace ask;

namespace {

constexpr HashSeed kSeed{0x243f6a8885a308d3, 0x13198a2e03707344};

KeySample sample_of(unsigned keys, unsigned tuples, const std::string& prefix, std::uint64_t expected) {
    KeySampler sampler(kSeed);
    for (unsigned i = 0; i < tuples; ++i) {
        sampler.add(prefix + std::to_string(100 + i % keys), 1);
    }
    return sampler.finish(expected);
}

}  // namespace

TEST_CASE("keys are counted in the group of their length, those that fit a slot") {
    const Geometry shorts{.short_slots = 16, .groups = 0, .m = 0, .rows = 1};
    const Geometry pairs{.short_slots = 16, .groups = 8, .m = 2, .rows = 1};
    const Geometry fours{.short_slots = 4, .groups = 4, .m = 4, .rows = 1};
    for (const auto& [prefix, shortest] : {std::pair("", 4U), std::pair("abcde", 8U),
                                           std::pair("abcdefgh", 12U), std::pair("abcdefghijkl", 16U)}) {
        const KeySample sample = sample_of(50, 1000, prefix, 1000);
        for (const Geometry& geometry : {shorts, pairs, fours}) {
            const BackWish wish = back_need(sample, geometry);
            CHECK(wish.wanted);
            CHECK_FALSE(wish.guess);
            const bool fits = shortest <= geometry.max_slot_key();
            CHECK(wish.keys[ASK_BACK_8] == (fits && shortest <= 8 ? 50 : 0));
            CHECK(wish.keys[ASK_BACK_16] == (fits && shortest > 8 ? 50 : 0));
        }
    }
}

TEST_CASE("a longer input has more keys where new ones still come, and an endless one is a guess") {
    const Geometry geometry{.short_slots = 16, .groups = 8, .m = 2, .rows = 1};
    const BackWish few = back_need(sample_of(50, 2000, "k", 1'000'000), geometry);
    CHECK(few.keys[ASK_BACK_8] >= 50);
    CHECK(few.keys[ASK_BACK_8] < 100);
    // Each of them new.
    const BackWish many = back_need(sample_of(2000, 2000, "k", 1'000'000), geometry);
    CHECK(many.keys[ASK_BACK_8] > 500'000);
    CHECK(many.keys[ASK_BACK_8] <= 1'000'000);
    CHECK(back_need(sample_of(50, 2000, "k", 0), geometry).guess);
}

namespace {

// How many keys of up to eight bytes are asked for, over how many there are: of these tuples, of which one in
// a hundred is in the sample.
template <typename Next>
double asked_for(Next next, unsigned tuples) {
    KeySampler sampler(kSeed);
    std::unordered_set<std::string> keys;
    for (unsigned i = 0; i < tuples; ++i) {
        const std::string key = next();
        keys.insert(key);
        if (i / 1000 % 100 == 50) {
            sampler.add(key, 1);
        }
    }
    const BackWish wish = back_need(sampler.finish(tuples), Geometry{});
    return static_cast<double>(wish.keys[ASK_BACK_8]) / static_cast<double>(keys.size());
}

}  // namespace

TEST_CASE("a part of an input does not ask for fewer keys than all of it has, nor for many times as many") {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<> at(0, 1);
    const auto by_rank = [&](double keys, double part) {
        return [&random, &at, keys, part] {
            return std::to_string(static_cast<unsigned>(
                at(random) < part ? std::exp(at(random) * std::log(keys)) : keys + at(random) * keys));
        };
    };
    for (const double keys : {1'000.0, 30'000.0, 500'000.0}) {
        CAPTURE(keys);
        // By rank, all alike, and half of each.
        for (const double part : {1.0, 0.0, 0.5}) {
            CAPTURE(part);
            const double asked = asked_for(by_rank(keys, part), 1'500'000);
            CHECK(asked > 0.9);
            CHECK(asked < 6);
        }
    }
}
