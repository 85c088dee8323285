// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/back_need.h"

#include <string>

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
