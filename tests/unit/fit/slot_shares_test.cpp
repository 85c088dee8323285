// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/slot_shares.h"

#include <algorithm>
#include <array>

#include <doctest/doctest.h>

namespace ask {
namespace {

using Tuples = std::array<double, SlotMap::kBuckets>;

std::array<double, ASK_MAX_SLOTS> loads(const Tuples& tuples, const SlotShares& shares, unsigned first) {
    std::array<double, ASK_MAX_SLOTS> load{};
    for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
        load.at(shares.slot[bucket] - first) += tuples[bucket];
    }
    return load;
}

TEST_CASE("equal buckets are spread evenly, and every one has a slot of its class") {
    Tuples tuples{};
    tuples.fill(1);
    const SlotShares shares = share_slots(tuples, 5, 7, 40);
    const auto load = loads(tuples, shares, 5);
    unsigned buckets = 0;
    for (unsigned slot = 0; slot < 7; ++slot) {
        CHECK(load[slot] >= 36);
        CHECK(load[slot] <= 37);
        CHECK(shares.buckets[slot] == static_cast<unsigned>(load[slot]));
        buckets += shares.buckets[slot];
    }
    CHECK(buckets == SlotMap::kBuckets);
    CHECK(shares.largest == 37);
}

TEST_CASE("a heavy bucket gets company only as far as the limit allows") {
    Tuples tuples{};
    tuples.fill(1);
    tuples[17] = 100;  // 355 tuples in all, 4 slots
    for (const double limit : {100.0, 110.0, 120.0, 200.0}) {
        CAPTURE(limit);
        const SlotShares shares = share_slots(tuples, 0, 4, limit);
        const auto load = loads(tuples, shares, 0);
        const unsigned heavy = shares.slot[17];
        CHECK(load[heavy] <= limit);
        CHECK(load[heavy] >= std::min(limit, 100.0 + 255.0 / 4 - 1));
        CHECK(*std::ranges::max_element(load) == shares.largest);
        // The others share what is left evenly.
        for (unsigned slot = 0; slot < 4; ++slot) {
            CHECK((slot == heavy || std::abs(load[slot] - (355 - load[heavy]) / 3) <= 1));
        }
    }
}

TEST_CASE("a limit that cannot be met is passed by as little as can be") {
    Tuples tuples{};
    tuples.fill(1);
    tuples[3] = 1000;
    const SlotShares shares = share_slots(tuples, 0, 2, 10);
    CHECK(shares.largest == 1000);
    CHECK(shares.buckets[shares.slot[3]] == 1);
}

}  // namespace
}  // namespace ask
