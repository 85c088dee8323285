// SPDX-License-Identifier: Apache-2.0
//
// The simulator could not find what this is about: its model of the switch's daemon was killed, never
// stopped.
#include "lib/control/switch/lease_clock.h"

#include <doctest/doctest.h>

namespace ask {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("leases run while the daemon does, and not while it is stopped") {
    LeaseClock clock;
    LeaseClock::Time real{seconds(100)};
    clock.tick(real);
    const auto start = clock.now(real);
    for (int i = 0; i < 10; ++i) {
        real += seconds(1);
        CHECK(clock.now(real - milliseconds(300)) - start == seconds(i) + milliseconds(700));
        clock.tick(real);
    }
    CHECK(clock.now(real) - start == seconds(10));
    real += seconds(3600);
    CHECK(clock.now(real) - start == seconds(12));
    clock.tick(real);
    CHECK(clock.now(real) - start == seconds(12));
    real += seconds(1);
    CHECK(clock.now(real) - start == seconds(13));
}

}  // namespace
}  // namespace ask
