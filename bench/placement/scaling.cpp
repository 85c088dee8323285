// SPDX-License-Identifier: Apache-2.0
//
// Fig. 10: how SOAR scales on BT(256) to BT(4096) with the power-law load and rates 1.
#include <cmath>
#include <string>
#include <vector>

#include "bench/placement/results.h"
#include "lib/placement/soar.h"

namespace ask::bench {
namespace {

constexpr double kReductions[] = {0.3, 0.5, 0.7, 0.9};

std::vector<std::uint32_t> sizes(const Settings& settings) {
    return settings.quick ? std::vector<std::uint32_t>{256, 512, 1024}
                          : std::vector<std::uint32_t>{256, 512, 1024, 2048, 4096};
}

std::string reduction_name(double reduction) {
    return fixed(100 * reduction, 0) + " % saved";
}

struct Figure10 {
    Samples utilisation;
    Samples fraction;
};

void run_seed(std::uint32_t n, std::uint32_t seed, Figure10& figure) {
    placement::Random random(seed);
    const placement::Problem problem =
        make_problem(build(loaded_binary(n, placement::RateScheme::kConstant, Load::kPowerLaw, random)),
                     placement::Objective::kUtilisation);
    const placement::Soar soar = placement::Soar::gather(problem, n - 1).value();
    const double size = n;
    const auto share = [&](double k) {
        return soar.cost(static_cast<std::uint32_t>(std::lround(k))) / soar.cost(0);
    };
    figure.utilisation.add("k = 1 % of n", size, share(0.01 * size));
    figure.utilisation.add("k = log2 n", size, share(std::log2(size)));
    figure.utilisation.add("k = sqrt n", size, share(std::sqrt(size)));
    for (const double reduction : kReductions) {
        std::uint32_t k = 0;
        while (soar.cost(k) > (1 - reduction) * soar.cost(0) && k < n) {
            ++k;
        }
        if (k < n) {  // some savings are out of reach even with every switch
            figure.fraction.add(reduction_name(reduction), size, 100.0 * k / size);
        }
    }
}

void judge(Results& results, const Figure10& figure, bool quick) {
    const Samples& share = figure.utilisation;
    results.check("Fig. 10a", "with k = 1 % of n, larger networks save more",
                  share.never_rises("k = 1 % of n") ? "falls" : "does not fall",
                  share.never_rises("k = 1 % of n"));
    const double small = 1 - share.mean("k = 1 % of n", 512);
    results.check("Fig. 10a", "1 % of BT(512) saves 35 %", percent(small), std::abs(small - 0.35) < 0.05);
    for (const char* name : {"k = log2 n", "k = sqrt n"}) {
        results.check("Fig. 10a", std::string("with ") + name + ", savings slowly decrease with size",
                      "share of all-red from " + fixed(share.mean(name, 256)) + " to " +
                          fixed(share.mean(name, share.xs(name).back())),
                      share.never_falls(name));
    }
    bool falls = true;
    for (const std::string& name : figure.fraction.names()) {
        falls = falls && figure.fraction.never_rises(name);
    }
    results.check("Fig. 10b", "the larger the network, the smaller the fraction that any saving needs",
                  falls ? "falls for every saving" : "does not always fall", falls);
    if (quick) {
        return;
    }
    const double large = 1 - share.mean("k = 1 % of n", 4096);
    results.check("Fig. 10a", "1 % of BT(4096) saves more than 50 %", percent(large), large > 0.5);
    const double half = figure.fraction.mean(reduction_name(0.5), 4096);
    const double most = figure.fraction.mean(reduction_name(0.7), 4096);
    results.check("Fig. 10b", "50 % on BT(4096) needs less than 1 % of the switches", fixed(half, 2) + " %",
                  half < 1);
    results.check("Fig. 10b", "70 % on BT(4096) needs less than 3 % of the switches", fixed(most, 2) + " %",
                  most < 3);
}

}  // namespace

void run_scaling(const Settings& settings, Results& results) {
    Figure10 figure;
    for (const std::uint32_t n : sizes(settings)) {
        for (std::uint32_t seed = 0; seed < settings.seeds(); ++seed) {
            run_seed(n, seed, figure);
        }
    }
    results.csv("fig10a", "n", figure.utilisation);
    results.csv("fig10b", "n", figure.fraction);
    results.plot("fig10a", {.title = "BT(n), power-law load",
                            .x_label = "nodes n",
                            .y_label = "utilisation / all-red",
                            .log_x = true,
                            .series = figure.utilisation.series()});
    results.plot("fig10b", {.title = "BT(n): switches that a saving needs",
                            .x_label = "nodes n",
                            .y_label = "% of the switches",
                            .log_x = true,
                            .series = figure.fraction.series()});
    judge(results, figure, settings.quick);
}

}  // namespace ask::bench
