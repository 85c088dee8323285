// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/placement/budget.h"
#include "lib/placement/online.h"
#include "lib/placement/soar.h"
#include "lib/placement/topologies.h"

using namespace ask::placement;

namespace {

using Ids = std::vector<SwitchId>;
using Curves = std::vector<std::vector<double>>;

double total_cost(const Curves& curves, const std::vector<std::uint32_t>& budgets) {
    double total = 0;
    for (std::size_t w = 0; w < curves.size(); ++w) {
        total += curves[w][std::min<std::size_t>(budgets[w], curves[w].size() - 1)];
    }
    return total;
}

// Workloads of both load distributions on BT(64), each with the curve of up to 20 switches.
Curves mixed_curves(std::uint32_t workloads, std::uint64_t seed) {
    Random random(seed);
    Curves curves;
    for (std::uint32_t w = 0; w < workloads; ++w) {
        TreeSpec spec = complete_binary(64, RateScheme::kConstant).value();
        REQUIRE(
            (w % 2 == 0 ? uniform_leaf_load(spec, 4, 6, random) : power_law_leaf_load(spec, 1, 63, 5, random))
                .ok());
        const Soar soar =
            Soar::gather(make_problem(Tree::build(spec).value(), Objective::kUtilisation), 20).value();
        curves.emplace_back(soar.curve().begin(), soar.curve().end());
    }
    return curves;
}

}  // namespace

TEST_CASE("a workload is planned on the capacity that earlier ones left") {
    TreeSpec spec = complete_binary(8, RateScheme::kConstant).value();
    const std::vector<std::uint64_t> load = {0, 0, 0, 2, 6, 5, 4};
    auto planner = OnlinePlanner::create(Tree::build(spec).value(), std::vector<std::uint32_t>(7, 1)).value();
    const Soar first = Soar::gather(planner.problem_for(load).value(), 2).value();
    REQUIRE(planner.take(first.colour(2)).ok());
    CHECK(planner.residual()[2] == 0);
    CHECK(planner.residual()[4] == 0);
    const Soar second = Soar::gather(planner.problem_for(load).value(), 2).value();
    CHECK(second.cost(2) > first.cost(2));
    for (const SwitchId id : second.colour(2)) {
        CHECK(planner.residual()[id] == 1);
    }
    REQUIRE(planner.release(first.colour(2)).ok());
    CHECK(Soar::gather(planner.problem_for(load).value(), 2)->cost(2) == 20);
}

TEST_CASE("capacity is neither overdrawn nor returned twice") {
    const Tree tree = Tree::build(complete_binary(4, RateScheme::kConstant).value()).value();
    auto planner = OnlinePlanner::create(tree, {1, 0, 2}).value();
    CHECK(planner.take(Ids{0, 1}).error().text().find("switch 1") != std::string::npos);
    CHECK(planner.residual()[0] == 1);
    CHECK(planner.take(Ids{2}).ok());
    CHECK(planner.release(Ids{0}).error().code() == ask::Errc::kLimit);
    CHECK(planner.release(Ids{2}).ok());
    CHECK_FALSE(planner.take(Ids{3}).ok());
    CHECK_FALSE(OnlinePlanner::create(tree, {1, 1}).ok());
    CHECK_FALSE(planner.problem_for({1}).ok());
}

TEST_CASE("an unlimited capacity makes online planning optimal for every workload") {
    Random random(2);
    TreeSpec spec = complete_binary(32, RateScheme::kConstant).value();
    auto planner =
        OnlinePlanner::create(Tree::build(spec).value(), std::vector<std::uint32_t>(31, 1000)).value();
    for (int workload = 0; workload < 20; ++workload) {
        REQUIRE(power_law_leaf_load(spec, 1, 63, 5, random).ok());
        const Soar online = Soar::gather(planner.problem_for(spec.load).value(), 4).value();
        const Soar alone =
            Soar::gather(make_problem(Tree::build(spec).value(), Objective::kUtilisation), 4).value();
        CHECK(online.cost(4) == alone.cost(4));
        REQUIRE(planner.take(online.colour(4)).ok());
    }
}

TEST_CASE("the exact split of a budget equals trying all splits") {
    const Curves curves = mixed_curves(3, 8);
    for (const std::uint32_t total : {0U, 1U, 7U, 20U}) {
        double best = total_cost(curves, {0, 0, 0});
        for (std::uint32_t a = 0; a <= total; ++a) {
            for (std::uint32_t b = 0; a + b <= total; ++b) {
                best = std::min(best, total_cost(curves, {a, b, total - a - b}));
            }
        }
        const auto budgets = split_budget(curves, total);
        CHECK(std::accumulate(budgets.begin(), budgets.end(), 0U) <= total);
        CHECK(total_cost(curves, budgets) == best);
    }
    CHECK(split_budget({}, 5).empty());
}

TEST_CASE("an exact split never costs more than the uniform one") {
    const Curves curves = mixed_curves(16, 3);
    const std::vector<std::uint32_t> uniform(16, 4);
    CHECK(total_cost(curves, split_budget(curves, 64)) < total_cost(curves, uniform));
}

TEST_CASE("the paced budget spends no more than it has and beats the uniform split on mixed workloads") {
    const Curves curves = mixed_curves(32, 6);
    PacedBudget paced(32 * 4, 32);
    std::vector<std::uint32_t> budgets;
    for (const auto& curve : curves) {
        budgets.push_back(paced.choose(curve));
    }
    const auto spent = std::accumulate(budgets.begin(), budgets.end(), 0U);
    CHECK(spent + paced.left() == 32 * 4);
    CHECK(total_cost(curves, budgets) < total_cost(curves, std::vector<std::uint32_t>(32, 4)));
    CHECK(total_cost(curves, split_budget(curves, 32 * 4)) <= total_cost(curves, budgets));
}

TEST_CASE("more workloads than expected share what is left") {
    const Curves curves = mixed_curves(4, 1);
    PacedBudget paced(6, 2);
    std::uint32_t spent = 0;
    for (const auto& curve : curves) {
        spent += paced.choose(curve);
    }
    CHECK(spent == 6);
    CHECK(paced.left() == 0);
    CHECK(paced.choose(curves[0]) == 0);
}

TEST_CASE("hull savings never increase and add up to the whole saving") {
    const std::vector<double> curve = {100, 95, 60, 58, 30, 30};
    const auto savings = hull_savings(curve);
    CHECK(savings.size() == 5);
    CHECK(std::is_sorted(savings.rbegin(), savings.rend()));
    CHECK(std::accumulate(savings.begin(), savings.end(), 0.0) == doctest::Approx(70));
    CHECK(savings[0] == doctest::Approx(20));
    CHECK(hull_savings(std::vector<double>{5}).empty());
}
