// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/soar.h"

#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/placement/topologies.h"
#include "tests/unit/placement/brute_force.h"

using namespace ask::placement;

namespace {

Tree power_law_binary(std::uint32_t n, std::uint64_t seed) {
    Random random(seed);
    TreeSpec spec = complete_binary(n, RateScheme::kLinear).value();
    REQUIRE(power_law_leaf_load(spec, 1, 63, 5, random).ok());
    return Tree::build(spec).value();
}

// n switches in a row, a load at the far end.
TreeSpec path(std::uint32_t n, std::uint64_t load) {
    TreeSpec spec;
    for (std::uint32_t id = 0; id < n; ++id) {
        spec.parent.push_back(id == 0 ? kNoSwitch : id - 1);
    }
    spec.rate.assign(n, 1);
    spec.load.assign(n, 0);
    spec.load.back() = load;
    return spec;
}

}  // namespace

TEST_CASE("the placement costs what the curve says, on a tree too large for brute force") {
    const Problem problem = make_problem(power_law_binary(512, 3), Objective::kUtilisation);
    const Soar soar = Soar::gather(problem, 300).value();
    for (std::uint32_t k = 0; k <= 300; k += 7) {
        const auto blue = soar.colour(k);
        CHECK(blue.size() <= k);
        CHECK(evaluate(problem, blue).total == doctest::Approx(soar.cost(k)).epsilon(1e-12));
    }
}

TEST_CASE("a larger budget never costs more, and one without limit costs what all-blue does") {
    const Problem problem = make_problem(power_law_binary(128, 1), Objective::kUtilisation);
    const Soar soar = Soar::gather(problem, 1000).value();
    CHECK(soar.curve().size() <= 128);
    for (std::uint32_t k = 1; k < 1200; ++k) {
        CHECK(soar.cost(k) <= soar.cost(k - 1));
    }
    std::vector<SwitchId> all(127);
    std::iota(all.begin(), all.end(), 0U);
    CHECK(soar.cost(1000) == doctest::Approx(evaluate(problem, all).total).epsilon(1e-12));
}

TEST_CASE("no switch is spent where it saves nothing") {
    SUBCASE("one message cannot be aggregated") {
        const Tree tree = Tree::build(path(5, 1)).value();
        CHECK(Soar::gather(make_problem(tree, Objective::kUtilisation), 5)->colour(5).empty());
    }
    SUBCASE("once aggregated, more switches on the way are idle") {
        const Tree tree = Tree::build(path(5, 9)).value();
        const Soar soar = Soar::gather(make_problem(tree, Objective::kUtilisation), 5).value();
        CHECK(soar.colour(5) == std::vector<SwitchId>{4});
        CHECK(soar.cost(5) == 5);
    }
    SUBCASE("without load there is no cost") {
        const Tree tree = Tree::build(path(5, 0)).value();
        const Soar soar = Soar::gather(make_problem(tree, Objective::kUtilisation), 5).value();
        CHECK(soar.cost(3) == 0);
        CHECK(soar.colour(3).empty());
    }
}

TEST_CASE("unavailable switches stay red") {
    Tree tree = Tree::build(path(4, 10)).value();
    tree = tree.with_available({1, 1, 0, 0}).value();
    const Soar soar = Soar::gather(make_problem(tree, Objective::kUtilisation), 4).value();
    CHECK(soar.colour(4) == std::vector<SwitchId>{1});
    CHECK(soar.cost(4) == 10 + 10 + 1 + 1);
    tree = tree.with_available({0, 0, 0, 0}).value();
    const Soar none = Soar::gather(make_problem(tree, Objective::kUtilisation), 4).value();
    CHECK(none.cost(4) == 40);
    CHECK(none.colour(4).empty());
}

TEST_CASE("the number of threads changes nothing") {
    Random random(11);
    TreeSpec spec = random_recursive(3000, random).value();
    REQUIRE(power_law_leaf_load(spec, 1, 63, 5, random).ok());
    const Problem problem = make_problem(Tree::build(spec).value(), Objective::kUtilisation);
    const Soar one = Soar::gather(problem, 40).value();
    for (const unsigned threads : {2U, 3U, 16U}) {
        const Soar many = Soar::gather(problem, 40, {.threads = threads}).value();
        for (std::uint32_t k = 0; k <= 40; ++k) {
            CHECK(many.cost(k) == one.cost(k));
            CHECK(many.colour(k) == one.colour(k));
        }
    }
}

TEST_CASE("budgets beyond one and two bytes are traced too") {
    SUBCASE("more than 255") {
        const Problem problem = make_problem(power_law_binary(1024, 5), Objective::kUtilisation);
        const Soar soar = Soar::gather(problem, 400).value();
        CHECK(evaluate(problem, soar.colour(400)).total == doctest::Approx(soar.cost(400)).epsilon(1e-12));
        CHECK(soar.colour(400).size() == 400);
    }
    SUBCASE("more than 65535") {
        // Two subtrees of 33000 leaves each, wide and flat: only the root's sum needs wide entries.
        constexpr std::uint32_t kLeaves = 33000;
        TreeSpec spec;
        spec.parent = {kNoSwitch, 0, 0};
        for (std::uint32_t leaf = 0; leaf < 2 * kLeaves; ++leaf) {
            spec.parent.push_back(1 + leaf / kLeaves);
        }
        spec.rate.assign(spec.parent.size(), 1);
        spec.load.assign(spec.parent.size(), 2);
        const std::uint64_t bytes =
            Soar::trace_bytes_for(make_problem(Tree::build(spec).value(), Objective::kUtilisation), 70000);
        CHECK(bytes > std::uint64_t{4} * kLeaves * kLeaves);
    }
}

TEST_CASE("the memory formula holds, and a gather beyond its limit is refused with the need") {
    const Problem problem = make_problem(power_law_binary(512, 2), Objective::kUtilisation);
    const std::uint64_t need = Soar::trace_bytes_for(problem, 32);
    const Soar soar = Soar::gather(problem, 32, {.memory_limit = need}).value();
    CHECK(soar.trace_bytes() == need);
    // At most two tables of a byte a cell per switch (docs/placement.md).
    CHECK(need <= std::uint64_t{2} * 511 * 9 * 33);
    CHECK(soar.peak_table_bytes() > 0);
    const auto refused = Soar::gather(problem, 32, {.memory_limit = need - 1});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == ask::Errc::kLimit);
    CHECK(refused.error().text().find(std::to_string(need)) != std::string::npos);
}

TEST_CASE("a tree as deep as it has switches does not exhaust the stack") {
    TreeSpec spec = path(200000, 50);
    spec.available.assign(200000, 0);
    for (std::uint32_t id = 0; id < 200000; id += 20000) {
        spec.available[id] = 1;
    }
    const Soar soar =
        Soar::gather(make_problem(Tree::build(spec).value(), Objective::kUtilisation), 3).value();
    CHECK(soar.colour(3) == std::vector<SwitchId>{180000});
    CHECK(soar.cost(3) == 19999 * 50 + 180001);
}

TEST_CASE("brute force itself knows the paper's example") {
    test::SmallTree small;
    small.spec.parent = {kNoSwitch, 0, 0, 1, 1, 2, 2};
    small.spec.rate.assign(7, 1);
    small.spec.load = {0, 0, 0, 2, 6, 5, 4};
    small.spec.available.assign(7, 1);
    small.message.assign(18, 1);
    const auto best = test::brute_force(small);
    CHECK(best.utilisation[0] == 51);
    CHECK(best.utilisation[2] == 20);
    CHECK(best.utilisation[7] == 7);
}
