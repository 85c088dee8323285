// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "lib/placement/bottleneck.h"
#include "lib/placement/solve.h"
#include "lib/placement/topologies.h"

using namespace ask::placement;

namespace {

Tree loaded_tree(std::uint64_t seed) {
    Random random(seed);
    TreeSpec spec = complete_binary(256, RateScheme::kConstant).value();
    REQUIRE(power_law_leaf_load(spec, 1, 63, 5, random).ok());
    return Tree::build(spec).value();
}

}  // namespace

TEST_CASE("each objective's optimum is at least as good under it as the others' are") {
    const Tree tree = loaded_tree(4);
    const SizeModel model = SizeModel::parameter_server(10000, 0.5, 4).value();
    const Objective all[] = {Objective::kUtilisation, Objective::kBottleneck, Objective::kBytes};
    for (const std::uint32_t k : {1U, 5U, 20U}) {
        for (const Objective objective : all) {
            const Placement best = solve(tree, objective, model, k).value();
            CHECK(best.blue.size() <= k);
            CHECK(best.cost == objective_cost(tree, objective, model, best.blue));
            for (const Objective other : all) {
                const Placement placed = solve(tree, other, model, k).value();
                CHECK(best.cost <= objective_cost(tree, objective, model, placed.blue) * (1 + 1e-12));
            }
        }
    }
}

TEST_CASE("bytes pull the placement towards the root when small aggregates save little") {
    // Up to six servers have nothing in common; from then on an aggregate does not grow.
    const SizeModel model = SizeModel::measured({{1, 10}, {6, 60}}).value();
    TreeSpec spec = complete_binary(8, RateScheme::kConstant).value();
    spec.load = {0, 0, 0, 2, 8, 5, 4};
    const Tree tree = Tree::build(spec).value();
    // At the busy leaf 7 messages of 8 are saved on 3 links, but only 20 bytes of 80.
    CHECK(solve(tree, Objective::kUtilisation, model, 1)->blue == std::vector<SwitchId>{4});
    CHECK(solve(tree, Objective::kBytes, model, 1)->blue == std::vector<SwitchId>{0});
    CHECK(solve(tree, Objective::kBytes, model, 1)->cost == 3 * 190 - 130);
}

TEST_CASE("the bottleneck needs no more switches than it takes") {
    // Root link 8 messages; one blue root brings every link to at most 4.
    TreeSpec spec = complete_binary(4, RateScheme::kConstant).value();
    spec.load = {0, 4, 4};
    const Problem problem = make_problem(Tree::build(spec).value(), Objective::kBottleneck);
    CHECK(minimise_bottleneck(problem, 0).largest == 8);
    CHECK(minimise_bottleneck(problem, 1).largest == 4);
    CHECK(minimise_bottleneck(problem, 1).blue == std::vector<SwitchId>{0});
    const BottleneckPlacement two = minimise_bottleneck(problem, 2);
    CHECK(two.largest == 2);
    CHECK(two.blue == std::vector<SwitchId>{1, 2});
    CHECK(minimise_bottleneck(problem, 3).largest == 1);
}

TEST_CASE("an idle tree has no bottleneck") {
    const Problem problem = make_problem(
        Tree::build(complete_binary(8, RateScheme::kConstant).value()).value(), Objective::kBottleneck);
    CHECK(minimise_bottleneck(problem, 3).largest == 0);
    CHECK(minimise_bottleneck(problem, 3).blue.empty());
}

TEST_CASE("objectives have names") {
    for (const Objective objective : {Objective::kUtilisation, Objective::kBottleneck, Objective::kBytes}) {
        CHECK(parse_objective(objective_name(objective)).value() == objective);
    }
    CHECK(parse_objective("speed").error().code() == ask::Errc::kUsage);
}
