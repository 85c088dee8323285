// SPDX-License-Identifier: Apache-2.0
//
// The paper's own example (SOAR, section 3): seven switches, loads 2, 6, 5 and 4 at the leaves, rates 1.
#include <doctest/doctest.h>

#include "lib/placement/contenders.h"
#include "lib/placement/soar.h"
#include "lib/placement/topologies.h"

using namespace ask::placement;

namespace {

Problem example() {
    TreeSpec spec = complete_binary(8, RateScheme::kConstant).value();
    spec.load = {0, 0, 0, 2, 6, 5, 4};
    return make_problem(Tree::build(spec).value(), Objective::kUtilisation);
}

double cost_of(Strategy strategy, std::uint32_t k) {
    const Problem problem = example();
    return evaluate(problem, place(strategy, problem, k).value()).total;
}

}  // namespace

TEST_CASE("the example costs what Fig. 3 says for every budget") {
    const Soar planned = Soar::gather(example(), 4).value();
    CHECK(planned.cost(0) == 51);
    CHECK(planned.cost(1) == 35);
    CHECK(planned.cost(2) == 20);
    CHECK(planned.cost(3) == 15);
    CHECK(planned.cost(4) == 11);
}

TEST_CASE("the unique optima of the example are those of Fig. 3b and 3c, and not nested") {
    const Soar soar = Soar::gather(example(), 4).value();
    CHECK(soar.colour(2) == std::vector<SwitchId>{2, 4});
    CHECK(soar.colour(3) == std::vector<SwitchId>{4, 5, 6});
}

TEST_CASE("the contenders cost what Fig. 2 says at k = 2") {
    CHECK(cost_of(Strategy::kTop, 2) == 27);
    CHECK(cost_of(Strategy::kMax, 2) == 24);
    CHECK(cost_of(Strategy::kLevel, 2) == 21);
    CHECK(cost_of(Strategy::kSoar, 2) == 20);
}

TEST_CASE("all-blue sends one message on every link") {
    const Problem problem = example();
    CHECK(cost_of(Strategy::kAllRed, 0) == 51);
    CHECK(cost_of(Strategy::kAllBlue, 0) == 7);
}
