// SPDX-License-Identifier: Apache-2.0
//
// Many workloads, one after the other, on switches that can each serve a limited number of them (SOAR,
// section 5.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/contenders.h"
#include "lib/placement/problem.h"
#include "lib/placement/soar.h"

namespace ask::placement {

class OnlinePlanner {
 public:
    // `capacity` per switch: how many workloads it may aggregate for at a time. kInput if the length differs.
    // A switch that the tree calls unavailable stays so.
    static Result<OnlinePlanner> create(Tree tree, std::vector<std::uint32_t> capacity);

    // The utilisation problem of a workload with these loads on the capacity that is left. kInput as
    // Tree::with_loads.
    [[nodiscard]] Result<Problem> problem_for(std::vector<std::uint64_t> load) const;

    // Takes one unit of capacity at each switch of `blue`, or releases it when the workload has ended. kLimit
    // if a switch has none left (respectively none taken), naming it; nothing is then changed.
    Result<> take(std::span<const SwitchId> blue);
    Result<> release(std::span<const SwitchId> blue);

    [[nodiscard]] std::span<const std::uint32_t> residual() const { return residual_; }

 private:
    OnlinePlanner(Tree tree, std::vector<std::uint32_t> capacity);

    Tree tree_;
    std::vector<std::uint32_t> capacity_;
    std::vector<std::uint32_t> residual_;
};

}  // namespace ask::placement
