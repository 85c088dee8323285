// SPDX-License-Identifier: Apache-2.0
//
// What is foreseen to travel against what a real combiner lets through, and its packets against a real
// packer's.
#include "lib/tuples/fit/merging.h"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/tuples/fit/planner.h"
#include "lib/tuples/packer.h"
#include "tests/support/combined.h"
#include "tests/unit/fit/text_like.h"

namespace ask {
namespace {

using Stream = std::vector<std::pair<std::string, std::int64_t>>;

template <typename Next>
Stream stream(Next next, std::size_t tuples) {
    Stream out;
    out.reserve(tuples);
    while (out.size() < tuples) {
        out.emplace_back(next(), 1);
    }
    return out;
}

// As ask-send takes it: out of 16 places.
KeySample sample_of(const Stream& tuples, std::uint32_t window) {
    constexpr std::size_t kPlaces = 16;
    KeySampler sampler(public_seed(1));
    const std::size_t piece =
        std::min<std::size_t>(tuples.size() / kPlaces, KeySampler::kMaxTuples / kPlaces);
    for (std::size_t place = 0; place < kPlaces; ++place) {
        sampler.next_place();
        for (std::size_t i = 0; i < piece; ++i) {
            sampler.add(tuples[tuples.size() / kPlaces * place + i].first, 1);
        }
    }
    KeySample sample = sampler.finish(tuples.size());
    sample.window = window;
    return sample;
}

std::string numbered(std::uint64_t number) {
    return std::to_string(number);
}
std::string address(std::uint64_t number) {
    return "10." + std::to_string(number >> 16U) + '.' + std::to_string(number >> 8U & 255U) + '.' +
           std::to_string(number & 255U);
}

// Ranks whose frequency falls as one over them.
class Zipf {
 public:
    Zipf(double keys, std::uint64_t seed) : random_(seed), keys_(keys) {}
    std::uint64_t next() { return static_cast<std::uint64_t>(std::exp(at_(random_) * std::log(keys_))); }

 private:
    std::mt19937_64 random_;
    std::uniform_real_distribution<> at_{0, 1};
    double keys_;
};

void check_near(double foreseen, double real, double factor) {
    CAPTURE(foreseen);
    CAPTURE(real);
    CHECK(foreseen <= real * factor);
    CHECK(foreseen * factor >= real);
}

void check_travel(const Stream& tuples, std::uint32_t window, double factor) {
    CAPTURE(window);
    const KeySample sample = sample_of(tuples, window);
    const KeySample left = after_merging(sample, 1);
    CHECK(validate(left).ok());
    const auto foreseen = left == sample ? tuples.size() : left.tuples();
    check_near(static_cast<double>(foreseen),
               static_cast<double>(test::combined(tuples, Op::kSum, window).size()), factor);
}

constexpr std::uint32_t kDefaultWindow = 1U << 17U;

template <typename Next>
void check_travel(Next next, std::size_t count, double factor) {
    const Stream tuples = stream(next, count);
    for (const std::uint32_t window : {1U << 8U, 1U << 12U, kDefaultWindow}) {
        check_travel(tuples, window, factor);
    }
}

TEST_CASE("what a combiner lets through is foreseen from a part of its input") {
    std::mt19937_64 random(5);
    SUBCASE("a text") {
        test::TextLike text(100'000, 3);
        check_travel([&] { return text.next(); }, 1'000'000, 1.5);
    }
    SUBCASE("few keys") {
        check_travel([&] { return numbered(random() % 5'000); }, 400'000, 1.25);
    }
    SUBCASE("keys of one frequency, more than are held back") {
        check_travel([&] { return address(random() % 200'000); }, 1'500'000, 1.25);
    }
    SUBCASE("a million keys, some far more frequent") {
        Zipf zipf(1e6, 9);
        check_travel([&] { return numbered(zipf.next()); }, 1'500'000, 1.6);
    }
}

TEST_CASE("where nothing is held back, or hardly a key comes twice, the sample is what travels") {
    std::uint64_t next = 0;
    const Stream fresh = stream([&] { return numbered(++next); }, 300'000);
    for (const std::uint32_t window : {0U, 64U, kDefaultWindow}) {
        const KeySample sample = sample_of(fresh, window);
        CHECK(after_merging(sample, 1) == sample);
    }
    test::TextLike text(1000, 3);
    const KeySample sample = sample_of(stream([&] { return text.next(); }, 100'000), 0);
    CHECK(after_merging(sample, 1) == sample);
}

TEST_CASE("each sender merges its own, and all of it travels") {
    std::mt19937_64 random(5);
    KeySample sum;
    for (int sender = 0; sender < 3; ++sender) {
        add_sample(sum,
                   sample_of(stream([&] { return numbered(random() % 3'000); }, 200'000), kDefaultWindow));
    }
    check_near(static_cast<double>(after_merging(sum, 3).tuples()), 9'000, 1.1);
    // A fourth that has not told is taken to be like them.
    sum.expected = 800'000;
    check_near(static_cast<double>(after_merging(sum, 4).tuples()), 12'000, 1.1);
    // Nobody knows how much there is: at least the keys that were seen come.
    sum.expected = 0;
    check_near(static_cast<double>(after_merging(sum, 3).tuples()), 9'000, 1.2);
}

TEST_CASE("keys that fit no slot are merged, too") {
    std::mt19937_64 random(5);
    const auto path = [&] { return "/a/path/that/is/long/enough/" + numbered(random() % 2'000); };
    const KeySample left = after_merging(sample_of(stream(path, 100'000), kDefaultWindow), 1);
    check_near(static_cast<double>(left.loose[2].tuples + left.loose[3].tuples), 2'000, 1.1);
    CHECK(left.groups[0].all_tuples() == 0);
    CHECK(left.loose[2].bytes > 28 * left.loose[2].tuples);
}

// Slots filled of those offered, of what travels.
double filled(const Stream& tuples, std::uint32_t window, const Plan& plan) {
    Packer packer({.geometry = plan.geometry, .slot_map = std::make_shared<SlotMap>(plan.slot_map)});
    std::vector<std::byte> out(ASK_MAX_PAYLOAD);
    for (const auto& [key, value] : window > 0 ? test::combined(tuples, Op::kSum, window) : tuples) {
        while (!packer.has_room()) {
            REQUIRE(packer.next(out));
        }
        packer.add(key, value);
    }
    packer.finish();
    while (packer.has_body()) {
        REQUIRE(packer.next(out));
    }
    return static_cast<double>(packer.stats().slots_filled) /
           static_cast<double>(packer.stats().slots_offered);
}

void check_packets(const Stream& tuples, std::uint32_t window) {
    CAPTURE(window);
    constexpr std::uint64_t kSram = 20U << 20U;
    const auto plan = plan_task(sample_of(tuples, window), {.sram_total = kSram, .sram_left = kSram});
    REQUIRE_MESSAGE(plan.ok(), plan.error().text());
    CAPTURE(to_string(plan->geometry));
    const double real = filled(tuples, window, *plan);
    CAPTURE(real);
    CHECK(real > 0.85);
    CHECK(std::abs(real - plan->estimate.slots_filled) < 0.1);
}

template <typename Next>
void check_packets(Next next, std::size_t count) {
    const Stream tuples = stream(next, count);
    for (const std::uint32_t window : {0U, 1U << 12U, kDefaultWindow}) {
        check_packets(tuples, window);
    }
}

TEST_CASE("packets of what travels are as full as planned, however much is merged") {
    SUBCASE("a text") {
        test::TextLike text(60'000, 3);
        check_packets([&] { return text.next(); }, 1'000'000);
    }
    SUBCASE("addresses") {
        Zipf zipf(50'000, 2);
        check_packets([&] { return address(zipf.next()); }, 600'000);
    }
    SUBCASE("numbers") {
        std::mt19937_64 random(5);
        check_packets([&] { return numbered(random() % 60'000); }, 600'000);
    }
}

}  // namespace
}  // namespace ask
