// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/replanner.h"

#include <doctest/doctest.h>

#include "lib/placement/soar.h"
#include "lib/placement/topologies.h"

using namespace ask::placement;

namespace {

constexpr std::uint32_t kBudget = 24;

void check_same_as_fresh(const Replanner& planner, const SizeModel& model, Objective objective) {
    const Problem problem = make_problem(planner.problem().tree, objective, model);
    const Soar fresh = Soar::gather(problem, kBudget).value();
    for (std::uint32_t k = 0; k <= kBudget; ++k) {
        CHECK(planner.cost(k) == doctest::Approx(fresh.cost(k)).epsilon(1e-12));
        const auto blue = planner.colour(k);
        CHECK(blue.size() <= k);
        CHECK(evaluate(problem, blue).total == doctest::Approx(fresh.cost(k)).epsilon(1e-12));
    }
}

void check_random_changes(Objective objective, const SizeModel& model) {
    Random random(5);
    TreeSpec spec = scale_free(400, random).value();
    for (std::uint32_t id = 0; id < 400; ++id) {
        spec.available.push_back(random() % 5 == 0 ? 0 : 1);
        spec.rate[id] = 0.5 + static_cast<double>(random() % 8);
    }
    auto planner = Replanner::create(Tree::build(spec).value(), objective, model, kBudget).value();
    check_same_as_fresh(planner, model, objective);
    for (int change = 0; change < 30; ++change) {
        REQUIRE(planner.set_load(static_cast<SwitchId>(random() % 400), random() % 50).ok());
        check_same_as_fresh(planner, model, objective);
    }
}

}  // namespace

TEST_CASE("after every change of a load the replanner has the optimum of a fresh plan") {
    SUBCASE("utilisation") {
        check_random_changes(Objective::kUtilisation, SizeModel::constant(1).value());
    }
    SUBCASE("bytes") {
        check_random_changes(Objective::kBytes, SizeModel::parameter_server(1000, 0.5, 4).value());
    }
}

TEST_CASE("a refused change leaves the plan as it was") {
    TreeSpec spec = complete_binary(8, RateScheme::kConstant).value();
    spec.load = {0, 0, 0, 2, 6, 5, 4};
    auto planner = Replanner::create(Tree::build(spec).value(), Objective::kUtilisation,
                                     SizeModel::constant(1).value(), 2)
                       .value();
    CHECK_FALSE(planner.set_load(7, 1).ok());
    CHECK_FALSE(planner.set_load(3, kMaxTotalLoad).ok());
    CHECK(planner.cost(2) == 20);
    CHECK(planner.colour(2) == std::vector<SwitchId>{2, 4});
}

TEST_CASE("a tree without an available switch is replanned too") {
    TreeSpec spec = complete_binary(4, RateScheme::kConstant).value();
    spec.load = {0, 3, 4};
    spec.available = {0, 0, 0};
    auto planner = Replanner::create(Tree::build(spec).value(), Objective::kUtilisation,
                                     SizeModel::constant(1).value(), 2)
                       .value();
    CHECK(planner.cost(2) == 14);
    REQUIRE(planner.set_load(1, 0).ok());
    CHECK(planner.cost(2) == 8);
    CHECK(planner.colour(2).empty());
}

TEST_CASE("the replanner refuses what it cannot do, and what would not fit") {
    const Tree tree = Tree::build(complete_binary(64, RateScheme::kConstant).value()).value();
    const SizeModel model = SizeModel::constant(1).value();
    CHECK(Replanner::create(tree, Objective::kBottleneck, model, 2).error().code() == ask::Errc::kUsage);
    const auto planner = Replanner::create(tree, Objective::kUtilisation, model, 8);
    const std::uint64_t need = planner->table_bytes();
    CHECK(Replanner::create(tree, Objective::kUtilisation, model, 8, need).ok());
    CHECK(Replanner::create(tree, Objective::kUtilisation, model, 8, need - 1).error().code() ==
          ask::Errc::kLimit);
}
