// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/planner.h"

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/tuples/packer.h"
#include "lib/tuples/sram.h"
#include "tests/unit/fit/text_like.h"

namespace ask {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint32_t kPayload = 1472;

PlanLimits limits(std::uint64_t sram = 20 * kMiB) {
    return {.payload_limit = kPayload, .sram_total = sram, .sram_left = sram, .aggregators = 0};
}

template <typename Next>
KeySample sample_of(Next next, unsigned tuples, std::uint64_t expected) {
    KeySampler sampler(public_seed(1));
    for (unsigned i = 0; i < tuples; ++i) {
        sampler.add(next(), 1);
    }
    return sampler.finish(expected);
}

// Slots filled of those offered, without merging.
template <typename Next>
double fill(Next next, unsigned tuples, const Geometry& geometry, std::shared_ptr<const SlotMap> map) {
    Packer packer({.geometry = geometry, .payload_limit = kPayload, .slot_map = std::move(map)});
    std::vector<std::byte> out(ASK_MAX_PAYLOAD);
    for (unsigned i = 0; i < tuples; ++i) {
        while (!packer.has_room()) {
            REQUIRE(packer.next(out));
        }
        packer.add(next(), 1);
    }
    packer.finish();
    while (packer.has_body()) {
        REQUIRE(packer.next(out));
    }
    return static_cast<double>(packer.stats().slots_filled) /
           static_cast<double>(packer.stats().slots_offered);
}

void check_allowed(const Plan& plan, const PlanLimits& limits) {
    CHECK(validate(plan.geometry).ok());
    CHECK(plan.geometry.payload_bytes(plan.geometry.rows) <= limits.payload_limit);
    CHECK(plan.aggregators <= most_aggregators(plan.geometry, limits.sram_total, limits.sram_left));
    const auto map = decode_slot_map(encode_slot_map(plan.slot_map, plan.geometry), plan.geometry);
    CHECK(map.ok());
}

TEST_CASE("a text's slots fill evenly as planned, and far better than by hash") {
    test::TextLike text(50'000, 1);
    const auto next = [&] { return text.next(); };
    const auto plan = plan_task(sample_of(next, 60'000, 1'000'000), limits());
    REQUIRE_MESSAGE(plan.ok(), plan.error().text());
    check_allowed(*plan, limits());
    const double planned = fill(next, 300'000, plan->geometry, std::make_shared<SlotMap>(plan->slot_map));
    const double hashed = fill(next, 300'000, Geometry{}, nullptr);
    CAPTURE(to_string(plan->geometry));
    CAPTURE(hashed);
    CHECK(planned > 0.8);
    CHECK(planned > 1.3 * hashed);
    CHECK(std::abs(planned - plan->estimate.slots_filled) < 0.1);
    CHECK(plan->estimate.too_long + plan->estimate.collisions < 0.02);
}

TEST_CASE("short keys get short slots only, long ones the words that they need") {
    std::mt19937_64 random(2);
    const auto of_size = [&](unsigned size) {
        return [&random, size] {
            std::string key = std::to_string(random() % 1000);
            key.resize(size, 'x');
            return key;
        };
    };
    for (unsigned words = 1; words <= ASK_MAX_M; ++words) {
        CAPTURE(words);
        const auto plan = plan_task(sample_of(of_size(4 * words), 5'000, 100'000), limits());
        REQUIRE(plan.ok());
        check_allowed(*plan, limits());
        CHECK(plan->estimate.too_long == 0);
        CHECK(plan->geometry.short_slots == (words == 1 ? plan->geometry.slots() : 0));
        CHECK(plan->geometry.m == (words == 1 ? 0 : words));
        CHECK(plan->estimate.slots_filled > 0.85);
        // Without a limit that matters a packet is filled with tuples as far as the MTU goes.
        const double tuples = plan->estimate.slots_filled * plan->geometry.slots() * plan->geometry.rows;
        CHECK(tuples * ASK_SLOT_BYTES * words >
              0.75 * (kPayload - sizeof(ask_hdr) - 16) * std::min(1.0, ASK_MAX_TUPLES * 8.0 * words / 1400));
    }
}

TEST_CASE("a plan stays within the switch's memory, and takes what it needs of it") {
    test::TextLike text(50'000, 4);
    const KeySample sample = sample_of([&] { return text.next(); }, 60'000, 4'000'000);
    double before = 1;
    for (const std::uint64_t sram : {kMiB / 4, kMiB, 4 * kMiB, 16 * kMiB}) {
        const auto plan = plan_task(sample, limits(sram));
        REQUIRE(plan.ok());
        check_allowed(*plan, limits(sram));
        CHECK(region_bytes(plan->geometry, plan->aggregators) <= sram);
        CHECK(plan->estimate.collisions < before);
        before = plan->estimate.collisions;
    }
    std::mt19937_64 random(2);
    const auto few = plan_task(sample_of([&] { return std::to_string(random() % 100); }, 5'000, 0), limits());
    REQUIRE(few.ok());
    CHECK(region_bytes(few->geometry, few->aggregators) < 2 * kMiB);
    const auto none = plan_task(sample, {.payload_limit = kPayload, .sram_total = 20 * kMiB, .sram_left = 0});
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().code() == Errc::kLimit);
}

TEST_CASE("aggregators that are decided already are kept") {
    test::TextLike text(20'000, 4);
    const KeySample sample = sample_of([&] { return text.next(); }, 20'000, 0);
    PlanLimits fixed = limits();
    fixed.aggregators = 60'000;  // at most 32 AAs
    const auto plan = plan_task(sample, fixed);
    REQUIRE(plan.ok());
    CHECK(plan->aggregators == 60'000);
    CHECK(plan->geometry.aas() <= 32);
}

TEST_CASE("without a switch only packets count") {
    test::TextLike text(20'000, 4);
    const KeySample sample = sample_of([&] { return text.next(); }, 20'000, 0);
    const auto plan = plan_task(sample, {.payload_limit = kPayload});
    REQUIRE(plan.ok());
    CHECK(plan->aggregators == 0);
    CHECK(plan->estimate.collisions == 0);
    CHECK(plan->estimate.slots_filled > 0.8);
}

TEST_CASE(
    "a region is a power of two of words, less what its AAs do not divide, and no more than its keys need") {
    std::mt19937_64 random(2);
    for (const unsigned keys : {50U, 5'000U, 200'000U}) {
        CAPTURE(keys);
        const auto next = [&] { return "10.0." + std::to_string(random() % keys); };
        const auto plan = plan_task(sample_of(next, 60'000, 1'000'000), limits());
        REQUIRE(plan.ok());
        check_allowed(*plan, limits());
        const std::uint32_t words = plan->aggregators * plan->geometry.aas();
        CHECK(std::bit_ceil(words) - words < plan->geometry.aas());
        CHECK(words >= kLeastRegionWords - plan->geometry.aas());
        // Sixteen places for each key, of up to four words.
        CHECK(words <= std::max(16 * 4 * keys * 5 / 4, kLeastRegionWords));
        // Uniform keys that fit: nine in ten are added up, whoever comes first.
        CHECK(plan->estimate.collisions < (keys < 10'000 ? 0.07 : 0.35));
    }
}

TEST_CASE("a geometry that is decided already gets memory for the keys that fit it") {
    std::mt19937_64 random(2);
    const auto next = [&] { return std::to_string(random() % 2000); };
    PlanLimits fixed = limits();
    fixed.geometry = Geometry{};
    const auto plan = plan_task(sample_of(next, 20'000, 1'000'000), fixed);
    REQUIRE(plan.ok());
    CHECK(plan->geometry == Geometry{});
    CHECK(plan->aggregators > 0);
    CHECK(plan->aggregators < 4096);
    const auto long_keys = [&] { return "as long as no slot " + next(); };
    const auto none = plan_task(sample_of(long_keys, 20'000, 1'000'000), fixed);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().text().find("no key fits any slot") != std::string::npos);
}

TEST_CASE(
    "with a back level keys to 64 bytes need no slot, and those that fit one get it if that is worth it") {
    std::mt19937_64 random(2);
    PlanLimits with_back = limits();
    with_back.back = true;
    const auto path = [&] { return "/as/long/as/no/slot/" + std::to_string(random() % 3000); };
    const KeySample paths = sample_of(path, 20'000, 1'000'000);
    const auto whole = plan_task(paths, with_back);
    REQUIRE_MESSAGE(whole.ok(), whole.error().text());
    check_allowed(*whole, with_back);
    CHECK(whole->estimate.whole == 1);
    CHECK(whole->estimate.too_long == 0);
    CHECK(whole->aggregators > 0);
    CHECK(region_bytes(whole->geometry, whole->aggregators) < kMiB / 4);
    CHECK(plan_task(paths, limits()).error().code() == Errc::kLimit);
    with_back.geometry = Geometry{};
    CHECK(plan_task(paths, with_back)->geometry == Geometry{});
    with_back.geometry.reset();
    // Half of them short, which is cheaper in slots.
    const auto mixed = [&] { return random() % 2 == 0 ? path() : std::to_string(random() % 3000); };
    const auto both = plan_task(sample_of(mixed, 20'000, 1'000'000), with_back);
    REQUIRE(both.ok());
    check_allowed(*both, with_back);
    CHECK(both->geometry.groups == 0);
    CHECK(std::abs(both->estimate.whole - 0.5) < 0.05);
    // Longer than any record of theirs.
    const auto endless = [&] { return std::string(65, 'x') + path(); };
    CHECK(plan_task(sample_of(endless, 20'000, 1'000'000), with_back).error().code() == Errc::kLimit);
}

TEST_CASE("a whole input is planned for, however small") {
    std::mt19937_64 random(2);
    const auto next = [&] { return "192.168.0." + std::to_string(random() % 9); };
    const auto plan = plan_task(sample_of(next, 20, 20), limits());
    REQUIRE(plan.ok());
    CHECK(plan->estimate.too_long == 0);
    CHECK(region_bytes(plan->geometry, plan->aggregators) < kMiB / 4);
    CHECK(plan_task(sample_of(next, 20, 21), limits()).error().code() == Errc::kInput);
}

TEST_CASE("many senders' samples give a plan, however much they hold back together") {
    test::TextLike text(20'000, 4);
    KeySample sample = sample_of([&] { return text.next(); }, 4'096, 20'000);
    sample.window = std::uint64_t{1} << 20U;  // the most that one may
    KeySample sum = sample;
    for (unsigned sender = 2; sender <= 64; ++sender) {
        add_sample(sum, sample);
        const auto plan = plan_task(sum, limits());
        REQUIRE_MESSAGE(plan.ok(), sender, ": ", plan.error().text());
    }
}

TEST_CASE("a plan is the same every time, and of too little there is none") {
    test::TextLike text(20'000, 4);
    const KeySample sample = sample_of([&] { return text.next(); }, 20'000, 0);
    const auto first = plan_task(sample, limits());
    const auto second = plan_task(sample, limits());
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    CHECK(first->geometry == second->geometry);
    CHECK(first->slot_map == second->slot_map);
    CHECK(plan_task(KeySample(), limits()).error().code() == Errc::kInput);
    const KeySample small = sample_of([&] { return text.next(); }, kLeastSample - 1, 0);
    CHECK(plan_task(small, limits()).error().code() == Errc::kInput);
}

TEST_CASE("samples at the edges of what is allowed give a plan") {
    for (int kind = 0; kind < 4; ++kind) {
        CAPTURE(kind);
        KeySample sample;
        if (kind == 0) {
            sample.loose[4] = {
                .tuples = kMaxSampleCount, .bytes = kMaxSampleCount, .distinct = kMaxSampleCount, .once = 1};
            sample.groups[0].once = sample.groups[0].tuples[7] = sample.groups[0].keys[7] = 1;
        } else {
            for (KeyGroup& group : sample.groups) {
                group.tuples.fill(kMaxSampleCount);
                group.keys.fill(kind == 1 ? 1 : kMaxSampleCount);
                group.once = kind == 2 ? kMaxSampleCount : 0;
            }
            sample.expected = kMaxSampleCount;
        }
        for (const std::uint64_t window : {0U, 1U, 1U << 20U}) {
            sample.window = window;
            REQUIRE(validate(sample).ok());
            PlanLimits allowed = limits();
            allowed.senders = kind % 2 == 0 ? 1 : 1000;
            const auto plan = plan_task(sample, allowed);
            REQUIRE(plan.ok());
            check_allowed(*plan, limits());
        }
    }
}

}  // namespace
}  // namespace ask
