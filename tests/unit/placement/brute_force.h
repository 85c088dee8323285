// SPDX-License-Identifier: Apache-2.0
//
// The optimum by trying every set of blue switches, written from the definition (SOAR, Eq. 1 and 2) and
// sharing nothing with lib/placement but the input; and random small inputs to compare on.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "lib/placement/tree.h"

namespace ask::placement::test {

struct SmallTree {
    TreeSpec spec;
    std::vector<double> message;  // per number of servers (0 .. total): bytes of an aggregate of so many
};

// Up to `max_switches` switches, in a random order of indices, with random shape, loads (some zero, some
// inside the tree) and availability. With `dyadic` every rate is a power of two and every size a whole
// number, so that every sum of costs is exact in a double; otherwise rates are arbitrary.
SmallTree random_small_tree(std::mt19937_64& random, std::uint32_t max_switches, bool dyadic);

// best[i] over all sets of at most i available switches, i = 0 .. number of switches.
struct Optimum {
    std::vector<double> utilisation;
    std::vector<double> bottleneck;
    std::vector<double> bytes;
};
Optimum brute_force(const SmallTree& small);

// The three costs of one set, by the definition.
struct Costs {
    double utilisation = 0;
    double bottleneck = 0;
    double bytes = 0;
};
Costs cost_of(const SmallTree& small, const std::vector<bool>& blue);

}  // namespace ask::placement::test
