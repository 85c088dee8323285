// SPDX-License-Identifier: Apache-2.0
//
// One call for a caller that wants a placement: which switches should aggregate for this objective.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/problem.h"
#include "lib/placement/soar.h"

namespace ask::placement {

struct Placement {
    std::vector<SwitchId> blue;  // ascending
    double cost = 0;             // of the objective
};

// The optimum with at most k blue switches. kLimit as Soar::gather.
Result<Placement> solve(const Tree& tree, Objective objective, const SizeModel& model, std::uint32_t k,
                        const SoarOptions& options = {});

// What `blue` costs under the objective.
[[nodiscard]] double objective_cost(const Tree& tree, Objective objective, const SizeModel& model,
                                    const std::vector<SwitchId>& blue);

}  // namespace ask::placement
