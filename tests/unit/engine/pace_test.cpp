// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/pace.h"

#include <cmath>

#include <doctest/doctest.h>

namespace ask {
namespace {

constexpr std::size_t kAround = 42;

// Sends payloads of these sizes in turn whenever it may, looking every `look`; bits of frames a second.
double rate_of(Pace pace, Nanos start, Nanos look, Nanos during) {
    constexpr std::size_t kSizes[]{1472, 60, 800};
    std::uint64_t bits = 0;
    std::size_t turn = 0;
    for (Nanos now = start; now < start + during; now += look) {
        while (pace.free_at() <= now) {
            const std::size_t payload = kSizes[turn++ % 3];
            pace.sent(now, payload);
            bits += 8 * (payload + kAround);
        }
    }
    return static_cast<double>(bits) * 1e9 / static_cast<double>(during);
}

TEST_CASE("a pace holds for any rate, packet size and clock") {
    for (const double rate : {64e3, 1e6, 33'333'333.0, 1e9, 25e9}) {
        const Nanos during = rate < 1e7 ? 20 * kSecond : kSecond / 10;
        const Pace pace(static_cast<std::uint64_t>(rate), kAround, 7 * kSecond);
        CHECK(std::abs(rate_of(pace, 7 * kSecond, 20 * kMicrosecond, during) / rate - 1) < 0.03);
        // Whoever looks only now and then catches up.
        CHECK(std::abs(rate_of(pace, 7 * kSecond, kMillisecond, during) / rate - 1) < 0.03);
    }
}

TEST_CASE("after a pause no more than a moment's worth leaves at once") {
    Pace pace(100'000'000, kAround, 0);
    std::uint64_t bits = 0;
    while (pace.free_at() <= kSecond) {
        pace.sent(kSecond, 1458);
        bits += 8 * 1500;
    }
    // 2 ms at the rate, and the packet that is always allowed.
    CHECK(bits <= 100'000'000 / 500 + 8 * 1500);
    CHECK(bits >= 100'000'000 / 500);
    // Nor at the very beginning.
    Pace fresh(100'000'000, kAround, 5 * kSecond);
    CHECK(fresh.free_at() <= 5 * kSecond);
    fresh.sent(5 * kSecond, 1458);
    CHECK(fresh.free_at() == 5 * kSecond + 120 * kMicrosecond);
}

TEST_CASE("without a rate everything may leave at once") {
    Pace pace;
    Pace none(0, kAround, kSecond);
    for (int i = 0; i < 1000; ++i) {
        pace.sent(kSecond, 1472);
        none.sent(kSecond, 1472);
    }
    CHECK(pace.free_at() == 0);
    CHECK(none.free_at() == 0);
}

TEST_CASE("absurd rates do no harm") {
    Pace fast(UINT64_MAX, kAround, kSecond);
    fast.sent(kSecond, 65507);
    CHECK(fast.free_at() <= kSecond + 1);
    Pace slow(1, kAround, kSecond);
    slow.sent(kSecond, 65507);
    CHECK(slow.free_at() > kSecond);
    CHECK(slow.free_at() < kNever / 2);
}

}  // namespace
}  // namespace ask
