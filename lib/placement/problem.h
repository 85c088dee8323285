// SPDX-License-Identifier: Apache-2.0
//
// A placement problem in the one form that every solver here takes: what a server's message weighs, what an
// aggregated message of each switch weighs, and what a unit of weight costs on each link.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/size_model.h"
#include "lib/placement/tree.h"

namespace ask::placement {

enum class Objective : std::uint8_t {
    kUtilisation,  // sum over links of messages * seconds per message (the paper's phi, Eq. 1)
    kBottleneck,   // the same product on the busiest link
    kBytes,        // sum over links of bytes ("byte complexity", section 5.3)
};

[[nodiscard]] std::string_view objective_name(Objective objective);
// kUsage for a name that is none of utilisation, bottleneck and bytes.
Result<Objective> parse_objective(std::string_view name);

struct Problem {
    Tree tree;
    std::vector<double> length;   // per switch: cost of one unit of weight on the link above it
    double raw = 1;               // weight of one server's message
    std::vector<double> emitted;  // per switch: weight of its one message when it aggregates
};

// `model` matters for kBytes only.
[[nodiscard]] Problem make_problem(Tree tree, Objective objective, const SizeModel& model);
// With every message of the same size.
[[nodiscard]] Problem make_problem(Tree tree, Objective objective);

// What a set of aggregating switches (blue, ascending or not) costs.
struct Cost {
    std::vector<double> weight;  // on the link above each switch
    double total = 0;            // sum of weight * length
    double largest = 0;          // maximum of weight * length
};

// An aggregating switch that nothing reaches sends nothing; any other sends one message.
[[nodiscard]] Cost evaluate(const Problem& problem, std::span<const SwitchId> blue);

}  // namespace ask::placement
