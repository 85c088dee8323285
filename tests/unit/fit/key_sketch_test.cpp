// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/key_sketch.h"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "lib/tuples/fit/key_sample.h"

namespace ask {
namespace {

std::uint64_t hash_of(std::uint64_t key) {
    return std::mt19937_64(key)();
}

// Keys [from, to), the even ones twice.
KeySketch sketch_of(std::uint64_t from, std::uint64_t to) {
    KeySketch sketch;
    for (std::uint64_t key = from; key < to; ++key) {
        sketch.add(hash_of(key));
        if (key % 2 == 0) {
            sketch.again(hash_of(key));
        }
    }
    return sketch;
}

TEST_CASE("keys that samples share are told from those that they do not") {
    CHECK(KeySketch().distinct() == 1);
    CHECK(KeySketch().once() == 1);
    KeySketch same = sketch_of(0, 5000);
    KeySketch half = same;
    KeySketch none = same;
    CHECK(same.distinct() == 1);
    CHECK(same.once() == 1);
    same.merge(sketch_of(0, 5000));
    half.merge(sketch_of(2500, 7500));
    none.merge(sketch_of(5000, 10'000));
    CHECK(same.distinct() == 0.5);
    CHECK(same.once() == 0);
    CHECK(std::abs(half.distinct() - 0.75) < 0.1);
    CHECK(std::abs(half.once() - 0.5) < 0.2);
    CHECK(none.distinct() == 1);
    CHECK(none.once() == 1);
    // One of a few keys, all of which are told.
    KeySketch few = sketch_of(0, 100);
    few.merge(sketch_of(50, 60));
    CHECK(few.distinct() == doctest::Approx(100.0 / 110));
}

TEST_CASE("sketches of many senders stay small and right, in whatever order they come") {
    KeySketch all;
    for (std::uint64_t sender = 0; sender < 200; ++sender) {
        all.merge(sketch_of(sender * 1000, sender * 1000 + 2000));
    }
    CHECK(std::abs(all.distinct() - 0.5) < 0.1);
    CHECK(all.distinct() > 0);
}

TEST_CASE("a sketch comes out as it went in, and one that is none is refused") {
    const KeySketch sketch = sketch_of(0, 5000);
    CHECK(sketch.encode().size() == KeySketch::kMost);
    const auto back = KeySketch::decode(sketch.encode());
    REQUIRE(back.ok());
    CHECK(*back == sketch);
    const KeySketch few = sketch_of(0, 3);
    CHECK(*KeySketch::decode(few.encode()) == few);
    CHECK(*KeySketch::decode({}) == KeySketch());
    CHECK(KeySketch::decode({2, 2}).error().code() == Errc::kInput);
    CHECK(KeySketch::decode({2, 3}).error().code() == Errc::kInput);
    CHECK(KeySketch::decode({4, 2}).error().code() == Errc::kInput);
    std::vector<std::uint64_t> many;
    for (std::uint64_t i = 0; i <= KeySketch::kMost; ++i) {
        many.push_back(2 * i);
    }
    CHECK(KeySketch::decode(many).error().code() == Errc::kInput);
    many.pop_back();
    CHECK(KeySketch::decode(many).ok());
}

TEST_CASE("senders that have the same keys are not taken to have as many each") {
    KeySample sum;
    for (int sender = 0; sender < 8; ++sender) {
        std::mt19937_64 random(static_cast<std::uint64_t>(sender));
        KeySampler sampler(public_seed(static_cast<std::uint64_t>(sender)));
        for (int i = 0; i < 20'000; ++i) {
            sampler.add(std::to_string(random() % 3000), 1);
            sampler.add("a key of so many bytes: " + std::to_string(random() % 500), 1);
        }
        add_sample(sum, sampler.finish(40'000));
    }
    const KeyCounts slots = sum.counts(sum.groups[0]);
    CHECK(sum.groups[0].distinct() > 20'000);
    CHECK(slots.distinct > 2500);
    CHECK(slots.distinct < 3500);
    CHECK(slots.once < 100);
    const KeyCounts loose = sum.counts(sum.loose[2]);
    CHECK(loose.distinct > 400);
    CHECK(loose.distinct < 600);
}

}  // namespace
}  // namespace ask
