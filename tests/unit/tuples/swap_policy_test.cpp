// SPDX-License-Identifier: Apache-2.0
//
// The policy over a model of a switch: an array of aggregators, first come until the next swap, and swaps
// that take a while. What matters is what goes upstream: tuples that the switch missed, and entries fetched.
#include "lib/tuples/swap_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include <doctest/doctest.h>

namespace ask {
namespace {

constexpr std::uint32_t kKeys = 1U << 14U;
constexpr std::uint32_t kPlaces = kKeys / 16;
constexpr std::uint64_t kTuples = 8'000'000;
constexpr std::uint32_t kTuplesAPacket = 100;
constexpr std::uint64_t kSwapTakes = 5000;  // tuples

using Stream = std::vector<std::uint32_t>;

std::vector<std::uint64_t> zipf_counts() {
    double sum = 0;
    for (std::uint32_t key = 0; key < kKeys; ++key) {
        sum += 1.0 / (key + 1);
    }
    std::vector<std::uint64_t> counts(kKeys);
    for (std::uint32_t key = 0; key < kKeys; ++key) {
        counts[key] = static_cast<std::uint64_t>(std::llround(kTuples / sum / (key + 1)));
    }
    return counts;
}

Stream hot_last() {
    Stream stream;
    const auto counts = zipf_counts();
    for (std::uint32_t key = kKeys; key-- > 0;) {
        stream.insert(stream.end(), counts[key], key);
    }
    return stream;
}

Stream hot_first() {
    Stream stream = hot_last();
    std::ranges::reverse(stream);
    return stream;
}

Stream random_order() {
    Stream stream = hot_last();
    std::mt19937 random(7);
    std::ranges::shuffle(stream, random);
    return stream;
}

struct Upstream {
    double share = 0;  // of all tuples
    std::uint64_t swaps = 0;
};

class Model {
 public:
    explicit Model(bool swaps) : swaps_(swaps) {}

    Upstream run(const Stream& stream) {
        for (const std::uint32_t key : stream) {
            offer(key);
            if (++sent_ % kTuplesAPacket == 0) {
                end_packet();
            }
        }
        missed_ += occupied();
        return {static_cast<double>(missed_ + fetched_) / static_cast<double>(stream.size()), done_};
    }

 private:
    void offer(std::uint32_t key) {
        std::uint32_t& holder = copy_[key * 2654435761U >> 16U & (kPlaces - 1)];
        if (holder == 0) {
            holder = key + 1;
        }
        if (holder == key + 1) {
            ++aggregated_;
        } else {
            ++missed_;
            packet_missed_ = true;
        }
    }
    void end_packet() {
        arrivals_.packets += packet_missed_ ? 1 : 0;
        arrivals_.tuples = missed_;
        arrivals_.span = packet_missed_ ? sent_ / kTuplesAPacket : arrivals_.span;
        packet_missed_ = false;
        if (busy_until_ != 0 && sent_ >= busy_until_) {
            policy_.done(fetching_, aggregated_);
            fetched_ += fetching_;
            busy_until_ = 0;
            ++done_;
        }
        if (swaps_ && busy_until_ == 0 && policy_.due(static_cast<Nanos>(sent_), arrivals_)) {
            fetching_ = occupied();
            std::ranges::fill(copy_, 0U);
            busy_until_ = sent_ + kSwapTakes;
        }
    }
    [[nodiscard]] std::uint64_t occupied() const {
        return kPlaces - static_cast<std::uint64_t>(std::ranges::count(copy_, 0U));
    }

    bool swaps_;
    std::vector<std::uint32_t> copy_ = std::vector<std::uint32_t>(kPlaces);
    SwapPolicy policy_{{}, kPlaces, 0};
    SwapArrivals arrivals_;
    bool packet_missed_ = false;
    std::uint64_t sent_ = 0;
    std::uint64_t aggregated_ = 0;
    std::uint64_t missed_ = 0;
    std::uint64_t fetching_ = 0;
    std::uint64_t fetched_ = 0;
    std::uint64_t busy_until_ = 0;
    std::uint64_t done_ = 0;
};

TEST_CASE("keys that cool down: adaptive swaps keep what goes upstream small") {
    for (const Stream& stream : {hot_last(), hot_first()}) {
        const Upstream without = Model(false).run(stream);
        const Upstream with = Model(true).run(stream);
        MESSAGE("upstream without " << without.share << ", with " << with.share << ", swaps " << with.swaps);
        CHECK(without.share > 0.25);
        CHECK(with.share < 0.06);
        CHECK(with.swaps > 10);
    }
}

TEST_CASE("random order: swaps do not pay, the policy notices and all but stops") {
    const Stream stream = random_order();
    const Upstream without = Model(false).run(stream);
    const Upstream with = Model(true).run(stream);
    MESSAGE("upstream without " << without.share << ", with " << with.share << ", swaps " << with.swaps);
    CHECK(with.share < without.share + 0.03);
    CHECK(with.swaps < 100);
}

TEST_CASE("fixed thresholds: whichever is reached first asks for a swap") {
    const SwapSettings settings{.packets = 10, .tuples = 100, .interval = 1000};
    SwapPolicy policy(settings, 64, 0);
    CHECK(policy.alarm().packets == 10);
    CHECK(policy.alarm().tuples == 100);
    CHECK(policy.alarm().at == 1000);
    CHECK_FALSE(policy.due(999, {.packets = 9, .tuples = 99, .span = 50}));
    CHECK(policy.due(999, {.packets = 9, .tuples = 100, .span = 50}));
    policy.done(64, 1000);
    CHECK(policy.alarm().packets == 19);
    CHECK(policy.alarm().tuples == 200);
    CHECK(policy.alarm().at == 1999);
    CHECK(policy.due(1000, {.packets = 19, .tuples = 101, .span = 60}));
    policy.done(64, 1000);
    CHECK(policy.due(2000, {.packets = 19, .tuples = 101, .span = 60}));
}

TEST_CASE("nothing missed, no swap, whatever the time") {
    SwapPolicy policy({}, 4096, 0);
    CHECK(policy.alarm().at == kNever);
    CHECK_FALSE(policy.due(kNever - 1, {.packets = 0, .tuples = 0, .span = 0}));
    CHECK_FALSE(policy.due(kNever - 1, {.packets = 1, .tuples = 4095, .span = 1'000'000}));
}

}  // namespace
}  // namespace ask
