// SPDX-License-Identifier: Apache-2.0
//
// Makes a failing history smaller: number after number of its plan is lowered as long as it still breaks
// the same promise: a smaller plan that breaks another is another bug, and the one that was found would be
// lost.
#pragma once

#include <cstdint>

#include "lib/base/result.h"
#include "tests/sim/plan.h"
#include "tests/sim/world.h"

namespace ask::sim {

// Whether a history can be made of it. kUsage says why not.
Result<> check_plan(const Plan& plan);
// The plan breaks this promise with this seed.
Plan shrink(const Plan& plan, std::uint64_t seed, Promise broken);

}  // namespace ask::sim
