// SPDX-License-Identifier: Apache-2.0
//
// Pairs are drawn as said, and the models of SwitchAgg's front and of buckets follow their rules.
#include "bench/switchagg/draw.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "bench/switchagg/bucket_model.h"
#include "bench/switchagg/evict_model.h"

using namespace ask::bench;

TEST_CASE("Zipf's law has each number as often as it says") {
    for (const double exponent : {0.5, 0.99, 1.0, 1.3}) {
        CAPTURE(exponent);
        constexpr std::uint64_t kCount = 1000;
        constexpr unsigned kDraws = 1'000'000;
        std::mt19937_64 random(7);
        ZipfDraw draw(kCount, exponent);
        std::vector<unsigned> drawn(kCount);
        for (unsigned i = 0; i < kDraws; ++i) {
            const std::uint64_t number = draw(random);
            REQUIRE(number < kCount);
            ++drawn[number];
        }
        double sum = 0;
        for (std::uint64_t i = 1; i <= kCount; ++i) {
            sum += std::pow(static_cast<double>(i), -exponent);
        }
        for (const std::uint64_t number : {0U, 1U, 2U, 9U, 99U, 999U}) {
            const double wanted = kDraws * std::pow(static_cast<double>(number + 1), -exponent) / sum;
            CAPTURE(number);
            CHECK(std::abs(drawn[number] - wanted) < 5 * std::sqrt(wanted) + 1);
        }
    }
}

TEST_CASE("keys are as many and as long as asked for, and none has a zero byte") {
    KeyDraw draw({.count = 5000, .shortest = 9, .longest = 64}, Turns::kFirst);
    std::set<std::string> keys;
    std::set<std::size_t> lengths;
    for (unsigned i = 0; i < 5000; ++i) {
        const std::string key(draw.next());
        CHECK(key.find('\0') == std::string::npos);
        lengths.insert(key.size());
        keys.insert(key);
    }
    CHECK(keys.size() == 5000);  // each once first
    CHECK(draw.distinct() == 5000);
    CHECK(lengths.size() == 64 - 9 + 1);
    for (unsigned i = 0; i < 5000; ++i) {
        CHECK(keys.contains(std::string(draw.next())));
    }
    CHECK(draw.distinct() == 5000);
}

TEST_CASE("evenly drawn, every key is as likely as another") {
    KeyDraw draw({.count = 16, .shortest = 8, .longest = 8}, Turns::kNone);
    std::map<std::string, unsigned> drawn;
    for (unsigned i = 0; i < 160'000; ++i) {
        ++drawn[std::string(draw.next())];
    }
    REQUIRE(drawn.size() == 16);
    for (const auto& [key, times] : drawn) {
        CHECK(std::abs(times - 10'000.0) < 500);
    }
}

TEST_CASE("in turns, every key comes as often as another, and not in one order") {
    KeyDraw draw({.count = 1000, .shortest = 8, .longest = 8}, Turns::kAlways);
    std::map<std::string, unsigned> drawn;
    std::vector<std::string> turn;
    unsigned same = 0;
    for (unsigned i = 0; i < 3000; ++i) {
        const std::string key(draw.next());
        CHECK(++drawn[key] == 1 + i / 1000);
        if (i < 1000) {
            turn.push_back(key);
        } else if (i < 2000) {
            same += turn[i - 1000] == key ? 1U : 0U;
        }
    }
    CHECK(same < 10);
}

TEST_CASE("who finds another in its place drives it out") {
    EvictModel one(1);
    for (const std::uint64_t key : {5U, 5U, 7U, 5U, 5U}) {
        one.add(key);
    }
    CHECK(one.left() == 3);  // 5, 7, and 5 again in the end
    EvictModel many(1U << 20U);
    for (const std::uint64_t key : {5ULL << 60U, 7ULL << 60U, 5ULL << 60U}) {
        many.add(key);
    }
    CHECK(many.left() == 2);
}

TEST_CASE("of as many keys as places, those are kept that hashing lets") {
    constexpr std::uint64_t kPlaces = 1U << 16U;
    const auto share = [](std::uint32_t places, std::uint32_t candidates) {
        return static_cast<double>(keys_kept(
                   {.buckets = kPlaces / places, .places = places, .candidates = candidates}, kPlaces)) /
               kPlaces;
    };
    // A place a key: 1 - 1/e. Of two or three, one after another: tanh 1, and x for which the integral of
    // 1 / (1 - x^3) is 1.
    CHECK(std::abs(share(1, 1) - 0.6321) < 0.005);
    CHECK(std::abs(share(1, 2) - 0.7616) < 0.005);
    CHECK(std::abs(share(1, 3) - 0.8211) < 0.005);
    // 1 - P(Poisson's law with 4 in the mean has more than 4, by how many) / 4.
    CHECK(std::abs(share(4, 1) - 0.8046) < 0.005);
    CHECK(keys_kept({.buckets = 3, .places = 2, .candidates = 3}, 1000) == 6);
    CHECK(keys_kept({.buckets = kPlaces / 4}, kPlaces / 2) > 0.999 * kPlaces / 2);
}
