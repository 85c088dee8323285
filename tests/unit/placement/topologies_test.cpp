// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/topologies.h"

#include <algorithm>

#include <doctest/doctest.h>

using namespace ask::placement;

TEST_CASE("BT(n) counts the destination, and its rates grow towards the root") {
    const Tree tree = Tree::build(complete_binary(16, RateScheme::kLinear).value()).value();
    CHECK(tree.size() == 15);
    CHECK(tree.height() == 3);
    CHECK(tree.rate(14) == 1);
    CHECK(tree.rate(0) == 4);
    CHECK(complete_binary(16, RateScheme::kExponential)->rate[0] == 8);
    CHECK(complete_binary(16, RateScheme::kExponential)->rate[7] == 1);
    CHECK(complete_binary(2, RateScheme::kConstant)->rate.size() == 1);
    CHECK_FALSE(complete_binary(15, RateScheme::kConstant).ok());
    CHECK_FALSE(complete_binary(1, RateScheme::kConstant).ok());
}

TEST_CASE("random trees are trees, the same for the same seed") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Random a(seed);
        Random b(seed);
        const TreeSpec spec = scale_free(300, a).value();
        CHECK(spec.parent == scale_free(300, b)->parent);
        CHECK(Tree::build(spec).value().total_load() == 300);
        CHECK(Tree::build(random_recursive(300, a).value()).ok());
    }
    Random random(1);
    CHECK_FALSE(scale_free(0, random).ok());
    CHECK_FALSE(random_recursive(0, random).ok());
    CHECK(scale_free(1, random).ok());
}

TEST_CASE("preferential attachment makes hubs that uniform attachment does not") {
    const auto largest = [](const TreeSpec& spec) {
        const Tree tree = Tree::build(spec).value();
        std::size_t most = 0;
        for (const SwitchId id : tree.top_down()) {
            most = std::max(most, tree.children(id).size());
        }
        return most;
    };
    Random random(3);
    CHECK(largest(scale_free(2000, random).value()) > 2 * largest(random_recursive(2000, random).value()));
}

TEST_CASE("leaf loads have the paper's ranges and means, and stay at the leaves") {
    Random random(7);
    TreeSpec spec = complete_binary(65536, RateScheme::kConstant).value();
    REQUIRE(power_law_leaf_load(spec, 1, 63, 5, random).ok());
    const auto leaf = spec.load.begin() + 32767;
    CHECK(std::all_of(spec.load.begin(), leaf, [](std::uint64_t load) { return load == 0; }));
    CHECK(*std::min_element(leaf, spec.load.end()) == 1);
    CHECK(*std::max_element(leaf, spec.load.end()) == 63);
    const double mean = static_cast<double>(Tree::build(spec).value().total_load()) / 32768;
    CHECK(mean == doctest::Approx(5).epsilon(0.05));

    REQUIRE(uniform_leaf_load(spec, 4, 6, random).ok());
    CHECK(*std::min_element(leaf, spec.load.end()) == 4);
    CHECK(*std::max_element(leaf, spec.load.end()) == 6);
    CHECK_FALSE(uniform_leaf_load(spec, 0, 6, random).ok());
    CHECK_FALSE(uniform_leaf_load(spec, 7, 6, random).ok());
    CHECK_FALSE(power_law_leaf_load(spec, 1, 63, 64, random).ok());
    CHECK_FALSE(power_law_leaf_load(spec, 1, 63, 1, random).ok());
}

TEST_CASE("the exponent gives the mean") {
    // Uniform over 1..9 has mean 5 and exponent 0.
    CHECK(power_law_exponent(1, 9, 5) == doctest::Approx(0).epsilon(1e-9));
    CHECK(power_law_exponent(1, 63, 5) == doctest::Approx(1.6264).epsilon(1e-4));
}
