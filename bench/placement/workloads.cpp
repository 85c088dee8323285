// SPDX-License-Identifier: Apache-2.0
//
// Fig. 7: workloads arriving one after the other on BT(256) with a capacity per switch; and, past the paper,
// budgets that differ between workloads against the same budget for all.
#include <algorithm>
#include <string>
#include <vector>

#include "bench/placement/results.h"
#include "lib/placement/budget.h"
#include "lib/placement/online.h"
#include "lib/placement/soar.h"

namespace ask::bench {
namespace {

using placement::RateScheme;
using placement::Strategy;
using Loads = std::vector<std::vector<std::uint64_t>>;

constexpr std::uint32_t kBudget = 16;
constexpr std::uint32_t kCapacity = 4;
constexpr std::uint32_t kWorkloads = 32;
constexpr std::uint32_t kCounts[] = {1, 2, 4, 8, 16, 24, 32};
constexpr std::uint32_t kCapacities[] = {1, 2, 4, 8, 16, 32};
constexpr RateScheme kSchemes[] = {RateScheme::kConstant, RateScheme::kLinear, RateScheme::kExponential};
constexpr Strategy kCompared[] = {Strategy::kTop, Strategy::kMax, Strategy::kLevel, Strategy::kSoar};

// Each workload from either distribution with probability one half. The paper's workloads are all about as
// large; `unequal` ones have 1 to 10 times the servers, and half of them use only a quarter of the racks.
Loads draw_workloads(placement::Random& random, bool unequal) {
    constexpr std::uint64_t kLargest = 10;
    Loads loads;
    for (std::uint32_t w = 0; w < kWorkloads; ++w) {
        const Load load = random() % 2 == 0 ? Load::kUniform : Load::kPowerLaw;
        loads.push_back(loaded_binary(256, RateScheme::kConstant, load, random).load);
        if (!unequal) {
            continue;
        }
        const std::uint64_t factor = 1 + random() % kLargest;
        const bool sparse = random() % 2 == 0;
        for (std::uint64_t& servers : loads.back()) {
            servers = sparse && random() % 4 != 0 ? 0 : servers * factor;
        }
    }
    return loads;
}

struct Costs {
    std::vector<double> placed;   // per workload
    std::vector<double> all_red;  // likewise
};

double share(const Costs& costs, std::size_t workloads) {
    double placed = 0;
    double all_red = 0;
    for (std::size_t w = 0; w < workloads; ++w) {
        placed += costs.placed[w];
        all_red += costs.all_red[w];
    }
    return placed / all_red;
}

placement::OnlinePlanner make_planner(RateScheme rates, std::uint32_t capacity) {
    placement::Tree tree = build(placement::complete_binary(256, rates).value());
    const std::size_t size = tree.size();
    return placement::OnlinePlanner::create(std::move(tree), std::vector<std::uint32_t>(size, capacity))
        .value();
}

// `choose` picks the switches of one workload.
template <typename Choose>
Costs run_online(RateScheme rates, std::uint32_t capacity, const Loads& loads, Choose choose) {
    placement::OnlinePlanner planner = make_planner(rates, capacity);
    Costs costs;
    for (const auto& load : loads) {
        const placement::Problem problem = planner.problem_for(load).value();
        const std::vector<placement::SwitchId> blue = choose(problem);
        costs.placed.push_back(evaluate(problem, blue).total);
        costs.all_red.push_back(evaluate(problem, {}).total);
        if (const auto taken = planner.take(blue); !taken.ok()) {
            die(taken.error().text());
        }
    }
    return costs;
}

Costs run_strategy(RateScheme rates, std::uint32_t capacity, const Loads& loads, Strategy strategy) {
    return run_online(rates, capacity, loads, [&](const placement::Problem& problem) {
        return place(strategy, problem, kBudget).value();
    });
}

struct Figure7 {
    Samples by_count;
    Samples by_capacity;
};

Figure7 run_scheme(const Settings& settings, RateScheme rates) {
    Figure7 figure;
    for (std::uint32_t seed = 0; seed < settings.seeds(); ++seed) {
        placement::Random random(1000 + seed);
        const Loads loads = draw_workloads(random, false);
        for (const Strategy strategy : kCompared) {
            const std::string name(strategy_name(strategy));
            for (const std::uint32_t capacity : kCapacities) {
                const Costs costs = run_strategy(rates, capacity, loads, strategy);
                figure.by_capacity.add(name, capacity, share(costs, kWorkloads));
                if (capacity != kCapacity) {
                    continue;
                }
                for (const std::uint32_t count : kCounts) {
                    figure.by_count.add(name, count, share(costs, count));
                }
            }
        }
    }
    return figure;
}

std::string second_best(const Samples& samples, double x) {
    std::string best = "top";
    for (const char* name : {"max", "level"}) {
        best = samples.mean(name, x) < samples.mean(best, x) ? name : best;
    }
    return best;
}

void judge_scheme(Results& results, RateScheme rates, const Figure7& figure) {
    const std::string scheme(rate_scheme_name(rates));
    bool best = true;
    std::string fallen;
    for (const std::string& name : figure.by_count.names()) {
        for (const double count : figure.by_count.xs(name)) {
            best = best && figure.by_count.mean("soar", count) <= figure.by_count.mean(name, count) + 1e-12;
        }
        for (const double capacity : figure.by_capacity.xs(name)) {
            best = best && figure.by_capacity.mean("soar", capacity) <=
                               figure.by_capacity.mean(name, capacity) + 1e-12;
        }
        // The first four workloads find every switch with capacity left.
        if (figure.by_count.mean(name, kWorkloads) < figure.by_count.mean(name, kCapacity)) {
            fallen.append(" ").append(name);
        }
    }
    results.check("Fig. 7", scheme + " rates: SOAR is best for every number of workloads and capacity",
                  best ? "at every point" : "not at every point", best);
    results.check("Fig. 7",
                  scheme + " rates: the share of all-red tends to rise with the number of workloads",
                  "SOAR from " + fixed(figure.by_count.mean("soar", kCapacity)) + " at 4 to " +
                      fixed(figure.by_count.mean("soar", kWorkloads)) + " at 32, " +
                      (fallen.empty() ? "every strategy higher" : "lower:" + fallen),
                  fallen.empty());
    bool improve = true;
    for (const char* name : {"soar", "max", "level"}) {
        improve = improve && figure.by_capacity.mean(name, 32) < figure.by_capacity.mean(name, 1);
    }
    results.check("Fig. 7", scheme + " rates: most strategies (SOAR, Max, Level) improve with capacity",
                  "SOAR from " + fixed(figure.by_capacity.mean("soar", 1)) + " to " +
                      fixed(figure.by_capacity.mean("soar", 32)) +
                      (improve ? ", all lower at 32" : ", not all lower at 32"),
                  improve);
    std::string top;
    for (const std::uint32_t capacity : kCapacities) {
        top.append(top.empty() ? "" : ", ").append(fixed(figure.by_capacity.mean("top", capacity)));
    }
    results.check("Fig. 7", scheme + " rates: Top fares worse as capacity increases",
                  "for capacities 1, 2, 4, 8, 16, 32: " + top, figure.by_capacity.never_falls("top"));
    const std::string second = second_best(figure.by_count, kWorkloads);
    if (rates == RateScheme::kExponential) {
        results.check("Fig. 7", "exponential rates: Max is closest to SOAR",
                      "closest at 32 workloads: " + second, second == "max");
    } else if (rates == RateScheme::kConstant) {
        results.check("Fig. 7", "constant rates: Level or Top is closest to SOAR",
                      "closest at 32 workloads: " + second, second != "max");
    }
}

// Shares of all-red for budgets that differ between workloads, by the mean budget.
void run_budgets(bool unequal, std::uint32_t k, std::uint32_t seed, Samples& samples) {
    placement::Random random(1000 + seed);
    const Loads loads = draw_workloads(random, unequal);
    const std::uint32_t longest = 4 * k;  // what one workload may get at most
    constexpr std::uint32_t kUnlimited = kWorkloads;
    for (const std::uint32_t capacity : {kUnlimited, kCapacity}) {
        const std::string suffix = capacity == kCapacity ? ", capacity 4" : "";
        const Costs same = run_online(
            RateScheme::kConstant, capacity, loads,
            [&](const placement::Problem& problem) { return place(Strategy::kSoar, problem, k).value(); });
        samples.add("same k for all" + suffix, k, share(same, kWorkloads));
        placement::PacedBudget paced(k * kWorkloads, kWorkloads);
        const Costs priced =
            run_online(RateScheme::kConstant, capacity, loads, [&](const placement::Problem& problem) {
                const placement::Soar soar = placement::Soar::gather(problem, longest).value();
                return soar.colour(paced.choose(soar.curve()));
            });
        samples.add("paced" + suffix, k, share(priced, kWorkloads));
    }
    std::vector<std::vector<double>> curves;
    placement::OnlinePlanner planner = make_planner(RateScheme::kConstant, kUnlimited);
    double all_red = 0;
    for (const auto& load : loads) {
        const placement::Soar soar =
            placement::Soar::gather(planner.problem_for(load).value(), longest).value();
        curves.emplace_back(soar.curve().begin(), soar.curve().end());
        all_red += soar.cost(0);
    }
    const auto budgets = placement::split_budget(curves, k * kWorkloads);
    double cost = 0;
    for (std::size_t w = 0; w < curves.size(); ++w) {
        cost += curves[w][budgets[w]];
    }
    samples.add("exact split in hindsight", k, cost / all_red);
}

void report_budgets(Results& results, const Samples& samples, const std::string& mix) {
    results.csv("budgets-" + mix, "k", samples);
    results.plot("budgets-" + mix, {.title = "32 " + mix + " workloads on BT(256), 32 k switches in all",
                                    .x_label = "mean budget k",
                                    .y_label = "utilisation / all-red",
                                    .log_x = true,
                                    .series = samples.series()});
    for (const std::uint32_t k : {4U, 8U, 16U, 32U}) {
        results.note("budgets",
                     mix + " workloads: paced budgets against the same k = " + std::to_string(k) + " for all",
                     "share of all-red: paced " + fixed(samples.mean("paced", k), 4) + ", same " +
                         fixed(samples.mean("same k for all", k), 4) + ", exact in hindsight " +
                         fixed(samples.mean("exact split in hindsight", k), 4) + "; with capacity 4: paced " +
                         fixed(samples.mean("paced, capacity 4", k), 4) + ", same " +
                         fixed(samples.mean("same k for all, capacity 4", k), 4));
    }
}

}  // namespace

void run_workloads(const Settings& settings, Results& results) {
    std::vector<double> lead;  // of SOAR over the second best at 32 workloads, per scheme
    for (const RateScheme rates : kSchemes) {
        const std::string scheme(rate_scheme_name(rates));
        const Figure7 figure = run_scheme(settings, rates);
        results.csv("fig7-workloads-" + scheme, "workloads", figure.by_count);
        results.csv("fig7-capacity-" + scheme, "capacity", figure.by_capacity);
        results.plot("fig7-workloads-" + scheme,
                     {.title = "BT(256), k = 16, capacity 4, " + scheme + " rates",
                      .x_label = "workloads",
                      .y_label = "utilisation / all-red",
                      .series = figure.by_count.series()});
        results.plot("fig7-capacity-" + scheme,
                     {.title = "BT(256), k = 16, 32 workloads, " + scheme + " rates",
                      .x_label = "workloads that a switch can serve",
                      .y_label = "utilisation / all-red",
                      .log_x = true,
                      .series = figure.by_capacity.series()});
        judge_scheme(results, rates, figure);
        lead.push_back(figure.by_count.mean(second_best(figure.by_count, kWorkloads), kWorkloads) -
                       figure.by_count.mean("soar", kWorkloads));
    }
    results.check("Fig. 7", "SOAR's lead is larger the less rates differ between levels",
                  "at 32 workloads: constant " + fixed(lead[0]) + ", linear " + fixed(lead[1]) +
                      ", exponential " + fixed(lead[2]),
                  lead[0] > lead[1] && lead[1] > lead[2]);
    for (const bool unequal : {false, true}) {
        Samples budgets;
        for (std::uint32_t seed = 0; seed < settings.seeds(); ++seed) {
            for (const std::uint32_t k : {4U, 8U, 16U, 32U}) {
                run_budgets(unequal, k, seed, budgets);
            }
        }
        report_budgets(results, budgets, unequal ? "unequal" : "equal");
    }
}

}  // namespace ask::bench
