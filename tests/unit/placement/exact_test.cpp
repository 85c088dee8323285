// SPDX-License-Identifier: Apache-2.0
//
// test_placement_exact SHARD SHARDS TREES: on each random small tree of this shard, SOAR's cost and its
// placement equal the brute-force optimum for every k - to the last bit where sums are exact, within 1e-12 of
// it elsewhere; so do bytes, the bottleneck, a gather on two threads and a replanner that arrived at the
// loads one change at a time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/placement/bottleneck.h"
#include "lib/placement/replanner.h"
#include "lib/placement/soar.h"
#include "lib/placement/solve.h"
#include "tests/unit/placement/brute_force.h"

namespace {

using namespace ask::placement;
using ask::placement::test::SmallTree;

struct Check {
    const SmallTree& small;
    std::uint64_t seed;
    bool exact;
    bool failed = false;

    void same(const char* what, std::size_t k, double got, double want) {
        const bool equal =
            exact ? got == want : std::abs(got - want) <= 1e-12 * std::max(1.0, std::abs(want));
        if (!equal && !failed) {
            std::printf("seed %llu, %zu switches, k=%zu: %s is %.17g, the optimum is %.17g\n",
                        static_cast<unsigned long long>(seed), small.spec.parent.size(), k, what, got, want);
            failed = true;
        }
    }

    // A placement is within its budget, uses available switches only, and costs what the optimum does.
    void placement(const char* what, std::size_t k, const std::vector<SwitchId>& blue, double want,
                   double test::Costs::* member) {
        std::vector<bool> set(small.spec.parent.size(), false);
        for (const SwitchId id : blue) {
            if (small.spec.available[id] == 0 || set[id]) {
                same((std::string(what) + " picks an unavailable switch, or one twice;").c_str(), k, -1,
                     want);
            }
            set[id] = true;
        }
        if (blue.size() > k) {
            same((std::string(what) + " exceeds its budget;").c_str(), k, -1, want);
        }
        same(what, k, test::cost_of(small, set).*member, want);
    }
};

SizeModel model_of(const SmallTree& small) {
    std::vector<SizePoint> points;
    for (std::size_t servers = 1; servers < small.message.size(); ++servers) {
        points.push_back({servers, small.message[servers]});
    }
    return SizeModel::measured(std::move(points)).value();
}

void check_replanner(Check& check, const Tree& tree, const test::Optimum& best, std::mt19937_64& random) {
    const auto count = static_cast<std::uint32_t>(tree.size());
    std::vector<std::uint64_t> load(count);
    for (auto& value : load) {
        value = random() % 4;
    }
    const SizeModel size = SizeModel::constant(1).value();
    auto planner = Replanner::create(tree.with_loads(load).value(), Objective::kUtilisation, size, count);
    for (std::uint32_t id = 0; id < count; ++id) {
        if (!planner->set_load(id, tree.load(id)).ok()) {
            check.same("set_load", id, -1, 0);
        }
    }
    for (std::uint32_t k = 0; k <= count; ++k) {
        check.same("the replanner's cost", k, planner->cost(k), best.utilisation[k]);
        check.placement("the replanner's placement", k, planner->colour(k), best.utilisation[k],
                        &test::Costs::utilisation);
    }
}

bool check_tree(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const bool exact = seed % 2 == 0;
    const SmallTree small = test::random_small_tree(random, 9, exact);
    const test::Optimum best = test::brute_force(small);
    const Tree tree = Tree::build(small.spec).value();
    const SizeModel model = model_of(small);
    const auto count = static_cast<std::uint32_t>(tree.size());
    Check check{.small = small, .seed = seed, .exact = exact};

    const Problem utilisation = make_problem(tree, Objective::kUtilisation);
    const Problem bytes = make_problem(tree, Objective::kBytes, model);
    const auto full = Soar::gather(utilisation, count);
    const auto parallel = Soar::gather(utilisation, count, {.threads = 2});
    for (std::uint32_t k = 0; k <= count; ++k) {
        check.same("the curve", k, full->cost(k), best.utilisation[k]);
        check.same("the curve of two threads", k, parallel->cost(k), best.utilisation[k]);
        check.placement("the placement", k, full->colour(k), best.utilisation[k], &test::Costs::utilisation);
        check.placement("the placement of two threads", k, parallel->colour(k), best.utilisation[k],
                        &test::Costs::utilisation);
        // A gather for exactly this budget: its tables are cut at k.
        const auto soar = Soar::gather(utilisation, k);
        check.same("the cost", k, soar->cost(k), best.utilisation[k]);
        check.placement("the placement for k", k, soar->colour(k), best.utilisation[k],
                        &test::Costs::utilisation);
        const auto by_bytes = Soar::gather(bytes, k);
        check.same("the bytes", k, by_bytes->cost(k), best.bytes[k]);
        check.placement("the placement by bytes", k, by_bytes->colour(k), best.bytes[k], &test::Costs::bytes);
        const auto level = minimise_bottleneck(utilisation, k);
        check.same("the bottleneck", k, level.largest, best.bottleneck[k]);
        check.placement("the placement by bottleneck", k, level.blue, best.bottleneck[k],
                        &test::Costs::bottleneck);
    }
    check_replanner(check, tree, best, random);
    return !check.failed;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: test_placement_exact SHARD SHARDS TREES\n");
        return 2;
    }
    const std::uint64_t shard = std::strtoull(argv[1], nullptr, 10);
    const std::uint64_t shards = std::strtoull(argv[2], nullptr, 10);
    const std::uint64_t trees = std::strtoull(argv[3], nullptr, 10);
    std::uint64_t checked = 0;
    std::uint64_t failed = 0;
    // Pairs of an exact and an arbitrary tree go to the same shard.
    for (std::uint64_t seed = 0; seed < trees; ++seed) {
        if (seed / 2 % shards == shard) {
            ++checked;
            failed += check_tree(seed) ? 0U : 1U;
        }
    }
    std::printf("%llu trees checked, %llu failed\n", static_cast<unsigned long long>(checked),
                static_cast<unsigned long long>(failed));
    return failed == 0 && checked > 0 ? 0 : 1;
}
