// SPDX-License-Identifier: Apache-2.0
//
// Fig. 6: SOAR and the contenders on BT(256), three rate schemes, two loads, k = 1 .. 32, as a share of
// all-red.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/placement/results.h"
#include "lib/placement/soar.h"

namespace ask::bench {
namespace {

using placement::RateScheme;
using placement::Strategy;

constexpr std::uint32_t kComparedBudgets[] = {1, 2, 4, 8, 16, 32};
constexpr RateScheme kSchemes[] = {RateScheme::kConstant, RateScheme::kLinear, RateScheme::kExponential};
constexpr Strategy kPapers[] = {Strategy::kTop, Strategy::kMax, Strategy::kLevel};

std::string name_of(Strategy strategy) {
    return std::string(strategy_name(strategy));
}

// What the claims need from all six plots.
struct Verdicts {
    std::size_t runs = 0;
    std::size_t soar_best = 0;
    bool all_fall = true;
    // Of each strategy's mean saving (over budgets and loads), what exponential rates leave of it.
    std::vector<std::pair<double, std::string>> kept;
    std::string soar_32;  // SOAR's share of all-red at k = 32, per scenario
};

Samples run_one(const Settings& settings, RateScheme rates, Load load, Verdicts& verdicts) {
    Samples samples;
    for (std::uint32_t seed = 0; seed < settings.seeds(); ++seed) {
        placement::Random random(seed);
        const placement::Problem problem =
            make_problem(build(loaded_binary(256, rates, load, random)), placement::Objective::kUtilisation);
        const double all_red = evaluate(problem, {}).total;
        const double all_blue =
            evaluate(problem, place(Strategy::kAllBlue, problem, 0).value()).total / all_red;
        for (const std::uint32_t k : kComparedBudgets) {
            const double soar = evaluate(problem, place(Strategy::kSoar, problem, k).value()).total / all_red;
            samples.add(name_of(Strategy::kSoar), k, soar);
            double others = 1;
            for (const Strategy strategy :
                 {Strategy::kTop, Strategy::kMax, Strategy::kLevel, Strategy::kGreedy}) {
                const double cost = evaluate(problem, place(strategy, problem, k).value()).total / all_red;
                samples.add(name_of(strategy), k, cost);
                others = std::min(others, cost);
            }
            samples.add(name_of(Strategy::kAllBlue), k, all_blue);
            ++verdicts.runs;
            verdicts.soar_best += soar <= others * (1 + 1e-12) ? 1U : 0U;
        }
    }
    return samples;
}

Strategy best_of_papers(const Samples& samples, double k) {
    return *std::min_element(std::begin(kPapers), std::end(kPapers), [&](Strategy a, Strategy b) {
        return samples.mean(name_of(a), k) < samples.mean(name_of(b), k);
    });
}

void judge(Results& results, RateScheme rates, Load load, const Samples& samples, Verdicts& verdicts) {
    for (const std::string& name : samples.names()) {
        verdicts.all_fall = verdicts.all_fall && samples.never_rises(name);
    }
    const Strategy claimed = load == Load::kPowerLaw ? Strategy::kMax : Strategy::kLevel;
    std::size_t times = 0;
    std::string leaders;
    for (const std::uint32_t k : kComparedBudgets) {
        const Strategy best = best_of_papers(samples, k);
        times += best == claimed ? 1U : 0U;
        leaders.append(leaders.empty() ? "" : ", ").append(name_of(best));
    }
    results.check("Fig. 6",
                  std::string(rate_scheme_name(rates)) + " rates, " + load_name(load) +
                      " load: " + name_of(claimed) + " comes closest to SOAR",
                  "closest for k = 1, 2, 4, 8, 16, 32: " + leaders, 2 * times > std::size(kComparedBudgets));
}

double mean_over_budgets(const Samples& samples, Strategy strategy) {
    double sum = 0;
    for (const std::uint32_t k : kComparedBudgets) {
        sum += samples.mean(name_of(strategy), k);
    }
    return sum / static_cast<double>(std::size(kComparedBudgets));
}

std::string of(std::size_t part, std::size_t whole, const char* what) {
    return std::to_string(part) + " of " + std::to_string(whole) + " " + what;
}

void report(Results& results, Verdicts& verdicts) {
    results.check("Fig. 6", "SOAR is the best strategy in every scenario",
                  of(verdicts.soar_best, verdicts.runs, "runs (greedy among the contenders)"),
                  verdicts.soar_best == verdicts.runs);
    results.check("Fig. 6", "every strategy improves with k",
                  verdicts.all_fall ? "all means fall" : "some mean rises", verdicts.all_fall);
    std::sort(verdicts.kept.begin(), verdicts.kept.end());
    std::string kept;
    for (const auto& [share, name] : verdicts.kept) {
        kept.append(kept.empty() ? "" : ", ").append(name).append(" ").append(percent(share));
    }
    results.check("Fig. 6", "Top is the most sensitive to link rates",
                  "mean saving with exponential rates as a share of that with constant rates: " + kept,
                  verdicts.kept.front().second == name_of(Strategy::kTop));
    results.note("Fig. 6", "what one aggregating switch in eight (k = 32) leaves of all-red",
                 verdicts.soar_32);
}

}  // namespace

void run_strategies(const Settings& settings, Results& results) {
    Verdicts verdicts;
    std::map<std::string, double> constant;
    std::map<std::string, double> exponential;
    for (const RateScheme rates : kSchemes) {
        for (const Load load : {Load::kPowerLaw, Load::kUniform}) {
            const Samples samples = run_one(settings, rates, load, verdicts);
            judge(results, rates, load, samples, verdicts);
            verdicts.soar_32.append(verdicts.soar_32.empty() ? "" : ", ")
                .append(rate_scheme_name(rates))
                .append(" ")
                .append(load_name(load))
                .append(" ")
                .append(percent(samples.mean(name_of(Strategy::kSoar), 32)));
            for (const Strategy strategy : kPapers) {
                if (rates == RateScheme::kConstant) {
                    constant[name_of(strategy)] += mean_over_budgets(samples, strategy) / 2;
                } else if (rates == RateScheme::kExponential) {
                    exponential[name_of(strategy)] += mean_over_budgets(samples, strategy) / 2;
                }
            }
            const std::string scenario = std::string(rate_scheme_name(rates)) + "-" + load_name(load);
            results.csv("fig6-" + scenario, "k", samples);
            results.plot("fig6-" + scenario, {.title = "BT(256), " + scenario,
                                              .x_label = "aggregating switches k",
                                              .y_label = "utilisation / all-red",
                                              .log_x = true,
                                              .series = samples.series()});
        }
    }
    for (const auto& [name, before] : constant) {
        verdicts.kept.emplace_back((1 - exponential[name]) / (1 - before), name);
    }
    report(results, verdicts);
}

}  // namespace ask::bench
