// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/contenders.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "lib/placement/topologies.h"

using namespace ask::placement;

namespace {

using Ids = std::vector<SwitchId>;

Problem binary(std::uint32_t n, std::vector<std::uint64_t> leaf_load) {
    TreeSpec spec = complete_binary(n, RateScheme::kConstant).value();
    const std::size_t first = spec.load.size() - leaf_load.size();
    for (std::size_t at = 0; at < leaf_load.size(); ++at) {
        spec.load[first + at] = leaf_load[at];
    }
    return make_problem(Tree::build(spec).value(), Objective::kUtilisation);
}

}  // namespace

TEST_CASE("top takes the switches closest to the root, the busier first") {
    const Problem problem = binary(8, {2, 6, 5, 4});
    CHECK(place(Strategy::kTop, problem, 2).value() == Ids{0, 2});
    CHECK(place(Strategy::kTop, problem, 3).value() == Ids{0, 1, 2});
    CHECK(place(Strategy::kTop, problem, 99).value().size() == 7);
}

TEST_CASE("max takes the largest loads, and among equals the most children") {
    CHECK(place(Strategy::kMax, binary(8, {2, 6, 5, 4}), 2).value() == Ids{4, 5});
    TreeSpec spec;
    spec.parent = {kNoSwitch, 0, 1, 1, 1};
    spec.rate.assign(5, 1);
    spec.load.assign(5, 1);
    const Problem problem = make_problem(Tree::build(spec).value(), Objective::kUtilisation);
    CHECK(place(Strategy::kMax, problem, 1).value() == Ids{1});
}

TEST_CASE("level takes the deepest whole level within the budget") {
    const Problem problem = binary(8, {2, 6, 5, 4});
    CHECK(place(Strategy::kLevel, problem, 0).value().empty());
    CHECK(place(Strategy::kLevel, problem, 1).value() == Ids{0});
    CHECK(place(Strategy::kLevel, problem, 3).value() == Ids{1, 2});
    CHECK(place(Strategy::kLevel, problem, 4).value() == Ids{3, 4, 5, 6});
    Problem holed = problem;
    holed.tree = problem.tree.with_available({1, 1, 1, 1, 0, 1, 1}).value();
    CHECK(place(Strategy::kLevel, holed, 4).value() == Ids{1, 2});
}

TEST_CASE("every strategy keeps to the available switches and, all-blue apart, to the budget") {
    Problem problem = binary(16, {9, 1, 3, 3, 7, 2, 2, 8});
    std::vector<std::uint8_t> available(15, 1);
    available[0] = available[7] = available[5] = 0;
    problem.tree = problem.tree.with_available(available).value();
    for (const Strategy strategy : kStrategies) {
        for (std::uint32_t k = 0; k < 17; ++k) {
            const Ids blue = place(strategy, problem, k).value();
            for (const SwitchId id : blue) {
                CHECK(problem.tree.available(id));
            }
            CHECK((strategy == Strategy::kAllBlue || blue.size() <= k));
            CHECK(std::is_sorted(blue.begin(), blue.end()));
            const double best = evaluate(problem, place(Strategy::kSoar, problem, k).value()).total;
            CHECK((strategy == Strategy::kAllBlue || best <= evaluate(problem, blue).total));
        }
    }
}

TEST_CASE("greedy takes the best next switch, which need not lead to the optimum") {
    const Problem problem = binary(8, {2, 6, 5, 4});
    const Ids first = place(Strategy::kGreedy, problem, 1).value();
    CHECK(evaluate(problem, first).total == 35);
    // Each step is the best single addition.
    for (std::uint32_t k = 1; k < 7; ++k) {
        const Ids before = place(Strategy::kGreedy, problem, k).value();
        const double after = evaluate(problem, place(Strategy::kGreedy, problem, k + 1).value()).total;
        for (SwitchId id = 0; id < 7; ++id) {
            Ids with = before;
            if (std::find(before.begin(), before.end(), id) == before.end()) {
                with.push_back(id);
            }
            CHECK(after <= evaluate(problem, with).total);
        }
    }
}

TEST_CASE("greedy stops when nothing saves any more") {
    CHECK(place(Strategy::kGreedy, binary(8, {1, 0, 0, 0}), 5).value().empty());
}

TEST_CASE("strategies have distinct names") {
    for (const Strategy a : kStrategies) {
        for (const Strategy b : kStrategies) {
            CHECK((a == b) == (strategy_name(a) == strategy_name(b)));
        }
    }
}
