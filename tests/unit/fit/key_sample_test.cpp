// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/key_sample.h"

#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "lib/tuples/key_hash.h"
#include "tests/support/chosen_keys.h"

namespace ask {
namespace {

TEST_CASE("a sample counts keys by the words they take, and tells which occurred once") {
    KeySampler sampler(public_seed(1));
    for (const char* key :
         {"a", "b", "a", "abcd", "abcde", "twelve bytes", "thirteen byte", "sixteen bytes ok"}) {
        sampler.add(key, 1);
    }
    sampler.add("", 1);
    sampler.add("seventeen bytes k", 1);
    sampler.add(std::string("z\0", 2), 1);
    sampler.add("b", std::numeric_limits<std::int64_t>::max());
    CHECK(sampler.tuples() == 12);
    const KeySample sample = sampler.finish(1000);
    CHECK(validate(sample).ok());
    CHECK(sample.tuples() == 12);
    CHECK(sample.expected == 1000);
    CHECK(sample.groups[0].all_tuples() == 4);
    CHECK(sample.groups[0].distinct() == 3);
    CHECK(sample.groups[0].once == 2);
    CHECK(sample.groups[0].tuples[SlotMap::bucket_of(key_hash("a"))] >= 2);
    CHECK(sample.groups[0].keys[SlotMap::bucket_of(key_hash("a"))] >= 1);
    CHECK(sample.groups[1].all_tuples() == 1);
    CHECK(sample.groups[2].all_tuples() == 1);
    CHECK(sample.groups[3].distinct() == 2);
    CHECK(sample.loose[0] == LooseKeys{.tuples = 1, .bytes = 1, .distinct = 1, .once = 1});
    CHECK(sample.loose[2] == LooseKeys{.tuples = 1, .bytes = 17, .distinct = 1, .once = 1});
    CHECK(sample.loose[4] == LooseKeys{.tuples = 2, .bytes = 2, .distinct = 2, .once = 2});
    CHECK(sample.senders == 1);
    CHECK(sample.window == 0);
}

TEST_CASE("keys that fit no slot are counted by their length, each once") {
    for (const auto& [size, group] : {std::pair(17U, 2U), std::pair(32U, 2U), std::pair(33U, 3U),
                                      std::pair(64U, 3U), std::pair(65U, 4U), std::pair(5000U, 4U)}) {
        KeySampler sampler(public_seed(1));
        for (int i = 0; i < 3; ++i) {
            sampler.add(std::string(size, 'x'), 1);
        }
        sampler.add(std::string(size, 'y'), 1);
        const KeySample sample = sampler.finish(0);
        CAPTURE(size);
        CHECK(sample.loose[group] == LooseKeys{.tuples = 4, .bytes = 4ULL * size, .distinct = 2, .once = 1});
        CHECK(sample.tuples() == 4);
    }
}

TEST_CASE("a key that comes in one place only counts as one that came once") {
    KeySampler sampler(public_seed(1));
    for (int place = 0; place < 16; ++place) {
        sampler.next_place();
        for (int i = 0; i < 5; ++i) {
            sampler.add("p" + std::to_string(place), 1);
            sampler.add("q" + std::to_string(place / 2), 1);
            sampler.add("as long as no slot is: " + std::to_string(place), 1);
        }
    }
    const KeySample sample = sampler.finish(0);
    CHECK(sample.groups[0].distinct() == 16 + 8);
    CHECK(sample.groups[0].once == 16);
    CHECK(sample.loose[2].once == 16);
    CHECK(sample.sketch.distinct() == 1);
}

TEST_CASE("a sampler stops at its limit") {
    KeySampler sampler(public_seed(1));
    for (std::uint32_t i = 0; i < KeySampler::kMaxTuples + 100; ++i) {
        sampler.add(std::to_string(i), 1);
    }
    CHECK(sampler.full());
    CHECK(sampler.finish(0).tuples() == KeySampler::kMaxTuples);
}

std::uint64_t probes_of_sample(const test::Keys& keys) {
    KeySampler sampler(public_seed(5));
    for (const std::string& key : keys) {
        sampler.add(key, 1);
    }
    CHECK(sampler.tuples() == keys.size());
    const std::uint64_t probes = sampler.probes();
    const KeySample sample = sampler.finish(0);
    CHECK(sample.groups[0].distinct() + sample.groups[1].distinct() + sample.groups[2].distinct() +
              sample.groups[3].distinct() ==
          keys.size());
    return probes;
}

TEST_CASE("keys chosen against a public hash cost a sampler no more than others") {
    constexpr std::size_t kFlood = 60'000;
    const auto without_zeros = [](std::uint64_t i) { return "k" + std::to_string(i); };
    const auto fair = test::choose_keys(kFlood, without_zeros, [](const std::string&) { return true; });
    // A 32nd of its places, by the hash that says which bucket a key is of.
    const auto chosen = test::choose_keys(
        kFlood, without_zeros, [](const std::string& key) { return (key_hash(key) & 0x1f000U) == 0; });
    CHECK(probes_of_sample(chosen) <= 3 * probes_of_sample(fair));
}

TEST_CASE("keys chosen by the seed end a sample early") {
    KeySampler sampler(public_seed(5));
    const auto chosen = test::choose_keys(
        10'000, [](std::uint64_t i) { return "k" + std::to_string(i); },
        [](const std::string& key) { return (keyed_hash(public_seed(5), key) & 0x1ffe0U) == 0; });
    for (const std::string& key : chosen) {
        sampler.add(key, 1);
    }
    CHECK(sampler.full());
    CHECK(sampler.probes() < 1024 * 1024);
    CHECK(validate(sampler.finish(0)).ok());
}

TEST_CASE("samples add up, and an unknown length stays unknown") {
    KeySampler first(public_seed(1));
    first.add("a", 1);
    KeySampler second(public_seed(1));
    second.add("a", 1);
    second.add("a very long key indeed", 1);
    KeySample sum;
    add_sample(sum, first.finish(10));
    CHECK(sum.expected == 10);
    KeySample other = second.finish(30);
    other.window = 100;
    add_sample(sum, other);
    CHECK(sum.window == 100);
    CHECK(sum.tuples() == 3);
    CHECK(sum.groups[0].distinct() == 2);
    CHECK(sum.loose[2].tuples == 1);
    CHECK(sum.expected == 40);
    CHECK(sum.senders == 2);
    KeySample unknown = other;
    unknown.expected = 0;
    add_sample(sum, unknown);
    CHECK(sum.expected == 0);
    add_sample(sum, other);
    CHECK(sum.expected == 0);
}

TEST_CASE("a sample that cannot be is refused") {
    KeySampler sampler(public_seed(1));
    sampler.add("a", 1);
    sampler.add("b", 1);
    const KeySample good = sampler.finish(0);
    const auto refused = [&](auto change) {
        KeySample sample = good;
        change(sample);
        const auto valid = validate(sample);
        return !valid.ok() && valid.error().code() == Errc::kInput;
    };
    CHECK_FALSE(refused([](KeySample&) {}));
    CHECK(refused([](KeySample& sample) { sample = KeySample(); }));
    CHECK(refused([](KeySample& sample) { sample.groups[0].once = 3; }));
    CHECK(refused([](KeySample& sample) { sample.groups[0].keys.fill(2); }));
    CHECK(refused([](KeySample& sample) {
        sample.groups[0].keys.fill(0);
        sample.groups[0].once = 0;
    }));
    CHECK(refused([](KeySample& sample) { sample.groups[2].keys[9] = 1; }));
    CHECK(refused([](KeySample& sample) { sample.groups[1].tuples[9] = ~std::uint64_t{0}; }));
    CHECK(refused([](KeySample& sample) { sample.loose[4].bytes = kMaxSampleCount + 1; }));
    CHECK(refused([](KeySample& sample) { sample.loose[1].distinct = 1; }));
    CHECK(refused([](KeySample& sample) { sample.loose[1].tuples = 1; }));
    CHECK(refused([](KeySample& sample) { sample.loose[1] = {.tuples = 2, .distinct = 1, .once = 2}; }));
    CHECK(refused([](KeySample& sample) { sample.window = (std::uint64_t{1} << 20) + 1; }));
    CHECK(refused([](KeySample& sample) { sample.expected = kMaxSampleCount + 1; }));
    // Counts that wrap when they are added up.
    CHECK(refused([](KeySample& sample) {
        sample.groups[0].tuples.fill(0);
        sample.groups[0].tuples[0] = sample.groups[0].tuples[1] = std::uint64_t{1} << 63;
        sample.groups[0].tuples[2] = 2;
    }));
}

}  // namespace
}  // namespace ask
