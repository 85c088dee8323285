// SPDX-License-Identifier: Apache-2.0
//
// What SwitchAgg's figures are made of, at a scale: memory, pairs and different keys all shrink by it, so
// that what its Eq. 3 says stays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/switchagg/trial.h"

namespace ask::bench {

struct Scale {
    double of_paper = 0.1;             // Fig. 9
    double of_fig2 = 1.0 / 16;         // Fig. 2(a)
    std::uint64_t places = 1U << 14U;  // Eq. 3
    std::uint64_t cost_keys = 1'000'000;
    std::vector<unsigned> gigabytes{2, 4, 8, 16};
    std::vector<unsigned> fronts{4, 8, 16, 32};  // MB
};

// One point of a figure.
struct Plan {
    std::string figure;
    std::string series;
    double x = 0;            // as the figure's axis has it
    double capacity = 0;     // places that Eq. 3 means; 0: it does not speak of this
    std::uint64_t kept = 0;  // keys that buckets have a place for, by the model; 0: not asked for
    Trial trial;
};

[[nodiscard]] std::vector<Plan> plan_eq3(const Scale& scale);
[[nodiscard]] std::vector<Plan> plan_fig2a(const Scale& scale);
[[nodiscard]] std::vector<Plan> plan_fig9(const Scale& scale);

// SwitchAgg's Eq. 3, of N keys, C places and M pairs; not below 0, where there are fewer pairs than keys.
[[nodiscard]] double eq3(double keys, double places, double pairs);
// The same where only so many keys find a place, each coming as often as any other.
[[nodiscard]] double eq3_kept(double keys, double kept, double pairs);
// And where a key has one place by its hash, as in the front: C places of which N keys find C (1 -
// e^(-N/C)).
[[nodiscard]] double eq3_hashed(double keys, double places, double pairs);

}  // namespace ask::bench
