// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/solve.h"

#include <utility>

#include "lib/placement/bottleneck.h"

namespace ask::placement {

Result<Placement> solve(const Tree& tree, Objective objective, const SizeModel& model, std::uint32_t k,
                        const SoarOptions& options) {
    Problem problem = make_problem(tree, objective, model);
    if (objective == Objective::kBottleneck) {
        BottleneckPlacement found = minimise_bottleneck(problem, k);
        return Placement{.blue = std::move(found.blue), .cost = found.largest};
    }
    auto soar = Soar::gather(std::move(problem), k, options);
    if (!soar.ok()) {
        return std::move(soar).error();
    }
    Placement placement{.blue = soar->colour(k), .cost = 0};
    placement.cost = evaluate(soar->problem(), placement.blue).total;
    return placement;
}

double objective_cost(const Tree& tree, Objective objective, const SizeModel& model,
                      const std::vector<SwitchId>& blue) {
    const Cost cost = evaluate(make_problem(tree, objective, model), blue);
    return objective == Objective::kBottleneck ? cost.largest : cost.total;
}

}  // namespace ask::placement
