// SPDX-License-Identifier: Apache-2.0
//
// The other objective that the paper leaves open (section 8): at most k aggregating switches such that the
// busiest link is as little busy as possible. Exact: a limit on every link can be met with i switches below v
// iff the least weight that v must send under that limit is finite, and less weight never hurts a link above;
// the least limit is found by bisection over the doubles, so nothing is lost to a tolerance.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/placement/problem.h"

namespace ask::placement {

struct BottleneckPlacement {
    std::vector<SwitchId> blue;  // ascending; as few as the limit needs
    double largest = 0;          // weight * length of the busiest link
};

// `threads` is absent on purpose: one bisection step is O(n k).
[[nodiscard]] BottleneckPlacement minimise_bottleneck(const Problem& problem, std::uint32_t k);

}  // namespace ask::placement
