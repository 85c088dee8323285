// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/back_need.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

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

TEST_CASE("keys are counted in the group of their length") {
    for (const auto& [bytes, group] :
         {std::pair(4U, 0U), std::pair(8U, 0U), std::pair(9U, 1U), std::pair(16U, 1U), std::pair(17U, 2U),
          std::pair(32U, 2U), std::pair(33U, 3U), std::pair(64U, 3U), std::pair(65U, 4U)}) {
        CAPTURE(bytes);
        const BackWish wish = back_need(sample_of(50, 1000, std::string(bytes - 3, 'k'), 1000), 1);
        CHECK(wish.wanted);
        CHECK_FALSE(wish.guess);
        for (unsigned at = 0; at < ASK_BACK_GROUPS; ++at) {
            CHECK(wish.keys[at] == (at == group ? 50 : 0));
        }
    }
}

TEST_CASE("values that fit no slot have their keys in the same group") {
    KeySampler sampler(kSeed);
    for (unsigned i = 0; i < 100; ++i) {
        sampler.add(std::to_string(100 + i % 20), std::int64_t{1} << 40);
    }
    CHECK(back_need(sampler.finish(100), 1).keys[ASK_BACK_8] == 20);
}

TEST_CASE("a longer input has more keys where new ones still come, and an endless one is a guess") {
    const BackWish few = back_need(sample_of(50, 2000, "k", 1'000'000), 1);
    CHECK(few.keys[ASK_BACK_8] >= 50);
    CHECK(few.keys[ASK_BACK_8] < 100);
    // Each of them new.
    const BackWish many = back_need(sample_of(2000, 2000, "k", 1'000'000), 1);
    CHECK(many.keys[ASK_BACK_8] > 500'000);
    CHECK(many.keys[ASK_BACK_8] < 1'000'010);  // of two lengths, each rounded up
    CHECK(back_need(sample_of(50, 2000, "k", 0), 1).guess);
    CHECK_FALSE(back_need(sample_of(50, 2000, "k", 2000), 1).guess);
    // One of two senders has said nothing of its keys.
    CHECK(back_need(sample_of(50, 2000, "k", 2000), 2).guess);
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
        if (i / 1000 % 10 == 5) {
            sampler.add(key, 1);
        }
    }
    const BackWish wish = back_need(sampler.finish(tuples), 1);
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
    for (const double keys : {1'000.0, 30'000.0, 200'000.0}) {
        CAPTURE(keys);
        // By rank, all alike, and half of each.
        for (const double part : {1.0, 0.0, 0.5}) {
            CAPTURE(part);
            const double asked = asked_for(by_rank(keys, part), 400'000);
            CHECK(asked > 0.9);
            CHECK(asked < 6);
        }
    }
}

TEST_CASE("nor does a sorted input") {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<> at(0, 1);
    for (const double keys : {30'000.0, 200'000.0}) {
        CAPTURE(keys);
        std::vector<unsigned> tuples(1'000'000);
        std::ranges::generate(tuples,
                              [&] { return static_cast<unsigned>(std::exp(at(random) * std::log(keys))); });
        std::ranges::sort(tuples);
        const auto distinct = std::unordered_set<unsigned>(tuples.begin(), tuples.end()).size();
        KeySampler sampler(kSeed);
        for (std::size_t place = 0; place < 16; ++place) {
            sampler.next_place();
            for (std::size_t i = 0; i < 2048; ++i) {
                sampler.add(std::to_string(tuples[tuples.size() / 16 * place + i]), 1);
            }
        }
        const auto asked = static_cast<double>(back_need(sampler.finish(tuples.size()), 1).keys[ASK_BACK_8]);
        CHECK(asked > 0.7 * static_cast<double>(distinct));
        CHECK(asked < 3 * static_cast<double>(distinct));
    }
}
