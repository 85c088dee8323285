// SPDX-License-Identifier: Apache-2.0
//
// Figs. 2 and 3: the example of section 3 under four strategies, and its optima for every budget.
#include "bench/placement/results.h"
#include "lib/placement/soar.h"
#include "tools/plan/picture.h"
#include "tools/plan/report.h"

namespace ask::bench {
namespace {

using placement::Strategy;

placement::Problem example() {
    placement::TreeSpec spec = placement::complete_binary(8, placement::RateScheme::kConstant).value();
    spec.load = {0, 0, 0, 2, 6, 5, 4};
    return make_problem(build(std::move(spec)), placement::Objective::kUtilisation);
}

void draw_tree(const Results& results, const std::string& name, const placement::Problem& problem,
               const std::vector<placement::SwitchId>& blue) {
    plan::Report report;
    const placement::Cost cost = evaluate(problem, blue);
    for (const placement::SwitchId id : problem.tree.top_down()) {
        const placement::SwitchId up = problem.tree.parent(id);
        const auto label = [&](placement::SwitchId which) {
            const std::uint64_t load = problem.tree.load(which);
            return std::to_string(which) + (load > 0 ? " (" + std::to_string(load) + ")" : "");
        };
        report.links.push_back({.from = label(id),
                                .to = up == placement::kNoSwitch ? "d" : label(up),
                                .messages = cost.weight[id],
                                .aggregates = std::find(blue.begin(), blue.end(), id) != blue.end()});
    }
    report.destination = "d";
    results.file(name + ".svg", plan::picture_svg(report).value());
}

void compare(Results& results, const std::string& figure, const std::string& what, double got, double paper) {
    results.check(figure, what + " costs " + fixed(paper, 0), fixed(got, 0), got == paper);
}

}  // namespace

void run_example(const Settings& /*settings*/, Results& results) {
    const placement::Problem problem = example();
    const std::pair<Strategy, double> strategies[] = {
        {Strategy::kTop, 27}, {Strategy::kMax, 24}, {Strategy::kLevel, 21}, {Strategy::kSoar, 20}};
    Samples by_strategy;
    for (const auto& [strategy, paper] : strategies) {
        const std::string name(strategy_name(strategy));
        const auto blue = place(strategy, problem, 2).value();
        const double cost = evaluate(problem, blue).total;
        by_strategy.add(name, 2, cost);
        draw_tree(results, "fig2-" + name, problem, blue);
        compare(results, "Fig. 2", name + " with k = 2", cost, paper);
    }
    results.csv("fig2", "k", by_strategy);

    const placement::Soar soar = placement::Soar::gather(problem, 4).value();
    Samples by_budget;
    const double paper[] = {51, 35, 20, 15, 11};
    for (std::uint32_t k = 0; k <= 4; ++k) {
        by_budget.add("soar", k, soar.cost(k));
        draw_tree(results, "fig3-k" + std::to_string(k), problem, soar.colour(k));
        compare(results, "Fig. 3", "the optimum for k = " + std::to_string(k), soar.cost(k), paper[k]);
    }
    results.csv("fig3", "k", by_budget);
}

}  // namespace ask::bench
