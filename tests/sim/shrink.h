// SPDX-License-Identifier: Apache-2.0
//
// Makes a failing history smaller: number after number of its plan is lowered as long as it still fails.
#pragma once

#include <cstdint>

#include "lib/base/result.h"
#include "tests/sim/plan.h"

namespace ask::sim {

// Whether a history can be made of it. kUsage says why not.
Result<> check_plan(const Plan& plan);
// The plan fails with this seed.
Plan shrink(const Plan& plan, std::uint64_t seed);

}  // namespace ask::sim
