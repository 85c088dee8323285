// SPDX-License-Identifier: Apache-2.0
#include "lib/client/send_pace.h"

#include <doctest/doctest.h>

using namespace ask::client;
using namespace std::chrono_literals;

TEST_CASE("who sends 400,000 tuples a second reads no further ahead than a quarter of a window") {
    SendPace pace;
    SendPace::Clock::time_point now{1h};
    constexpr auto kMany = SendPace::kLeast + 1;
    static_assert(kMany < 400'000);
    // Nobody knows yet how fast it goes.
    CHECK_FALSE(pace.is_enough(kMany, 4s, now));
    for (int i = 0; i < 4; ++i) {
        pace.sent(100'000);
        now += 250ms;
        CHECK_FALSE(pace.is_enough(399'999, 4s, now));
        CHECK(pace.is_enough(400'001, 4s, now));
    }
    // A shorter window has less.
    CHECK(pace.is_enough(kMany, 1s, now));
    CHECK_FALSE(pace.is_enough(SendPace::kLeast, 1s, now));
    // Nobody has asked for long.
    pace.sent(1000);
    now += 60s;
    CHECK_FALSE(pace.is_enough(kMany, 1s, now));
    pace.sent(100'000);
    now += 250ms;
    CHECK(pace.is_enough(kMany, 1s, now));
    // What stands still is not waited for.
    now += 250ms;
    CHECK_FALSE(pace.is_enough(100'000'000, 4s, now));
}
