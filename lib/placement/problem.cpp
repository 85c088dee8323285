// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/problem.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ask::placement {

std::string_view objective_name(Objective objective) {
    switch (objective) {
        case Objective::kUtilisation:
            return "utilisation";
        case Objective::kBottleneck:
            return "bottleneck";
        case Objective::kBytes:
            return "bytes";
    }
    return "unknown";
}

Result<Objective> parse_objective(std::string_view name) {
    for (const Objective objective : {Objective::kUtilisation, Objective::kBottleneck, Objective::kBytes}) {
        if (name == objective_name(objective)) {
            return objective;
        }
    }
    return Error(Errc::kUsage,
                 "objective '" + std::string(name) + "' is none of utilisation, bottleneck and bytes");
}

Problem make_problem(Tree tree, Objective objective, const SizeModel& model) {
    const std::size_t count = tree.size();
    Problem problem{.tree = std::move(tree), .length = {}, .raw = 1, .emitted = {}};
    problem.length.assign(count, 1);
    problem.emitted.assign(count, 1);
    if (objective == Objective::kBytes) {
        problem.raw = model.bytes(1);
    }
    for (std::size_t at = 0; at < count; ++at) {
        const auto id = static_cast<SwitchId>(at);
        if (objective == Objective::kBytes) {
            problem.emitted[at] = model.bytes(problem.tree.subtree_load(id));
        } else {
            problem.length[at] = problem.tree.seconds(id);
        }
    }
    return problem;
}

Problem make_problem(Tree tree, Objective objective) {
    // A positive constant is always accepted.
    return make_problem(std::move(tree), objective, SizeModel::constant(1).value());
}

Cost evaluate(const Problem& problem, std::span<const SwitchId> blue) {
    const Tree& tree = problem.tree;
    std::vector<bool> aggregates(tree.size(), false);
    for (const SwitchId id : blue) {
        aggregates[id] = true;
    }
    Cost cost;
    cost.weight.assign(tree.size(), 0);
    const auto order = tree.top_down();
    for (std::size_t at = order.size(); at-- > 0;) {
        const SwitchId id = order[at];
        double& weight = cost.weight[id];
        weight += problem.raw * static_cast<double>(tree.load(id));
        if (aggregates[id]) {
            weight = tree.subtree_load(id) > 0 ? problem.emitted[id] : 0;
        }
        if (tree.parent(id) != kNoSwitch) {
            cost.weight[tree.parent(id)] += weight;
        }
        cost.total += weight * problem.length[id];
        cost.largest = std::max(cost.largest, weight * problem.length[id]);
    }
    return cost;
}

}  // namespace ask::placement
