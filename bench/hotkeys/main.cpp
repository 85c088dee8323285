// SPDX-License-Identifier: Apache-2.0
//
// tools/bench hotkeys: ASK Fig. 9 on the real switch program. CSV, JSON and plots; a line a trial on stdout.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "bench/common/machine.h"
#include "bench/common/plot.h"
#include "bench/common/results.h"
#include "bench/hotkeys/trial.h"

namespace ask::bench {
namespace {

constexpr std::uint64_t kFullTuples = 100'000'000;
constexpr std::uint64_t kQuickTuples = 1'000'000;
constexpr unsigned kSmallest = 4;
constexpr unsigned kLargest = 16;
constexpr std::array kOrders{Order::kUniform, Order::kHotFirst, Order::kHotLast, Order::kRandom};
constexpr std::array kWays{Way::kFirstCome, Way::kSwap, Way::kReplace, Way::kBoth};
// ASK section 5.4, "prioritisation", at one aggregator for 16 keys.
constexpr double kPaperAggregated = 0.9585;
constexpr unsigned kPaperSize = 12;

struct Settings {
    std::string bpffs;
    std::string out;
    std::string barrier = "auto";
    bool quick = false;
    std::uint64_t tuples = 0;
    std::vector<unsigned> sizes;
    std::vector<std::string> orders;    // empty: all
    std::vector<std::string> policies;  // empty: all

    [[nodiscard]] bool wants(Order order) const {
        return orders.empty() || std::ranges::find(orders, to_string(order)) != orders.end();
    }
    [[nodiscard]] bool wants(Order order, Way way) const {
        return wants(order) &&
               (policies.empty() || std::ranges::find(policies, to_string(way)) != policies.end());
    }
};

struct Row {
    Trial trial;
    Outcome outcome;
};

void print_head() {
    std::printf("%-15s %-13s %7s %9s %10s %9s %8s %8s %8s %7s %9s %9s\n", "order", "policy", "aggr.",
                "on switch", "upstream", "forwarded", "evicted", "fetched", "swaps", "M/s", "ms a swap",
                "dip");
}

// What a swap under way takes off the throughput. Not for sorted keys: their swaps come where the stream
// changes, and so would this.
std::string dip(const Row& row) {
    const Outcome& out = row.outcome;
    const bool sorted = row.trial.order == Order::kHotFirst || row.trial.order == Order::kHotLast;
    if (sorted || out.rate_between == 0 || out.rate_during == 0) {
        return "-";
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f%%", 100 * (1 - out.rate_during / out.rate_between));
    return text.data();
}

void print(const Row& row) {
    const Outcome& out = row.outcome;
    const double mean = out.swaps == 0 ? 0 : 1e3 * out.swap_seconds / static_cast<double>(out.swaps);
    std::printf("%-15s %-13s %7u %8.2f%% %9.2f%% %8.2f%% %7.2f%% %7.2f%% %8llu %7.2f %9.3f %9s\n",
                to_string(row.trial.order), to_string(row.trial.way), row.trial.aggregators,
                100 * out.aggregated_share(), 100 * out.upstream_share(), 100 * out.share(out.forwarded),
                100 * out.share(out.evicted), 100 * out.share(out.fetched),
                static_cast<unsigned long long>(out.swaps), out.rate() / 1e6, mean, dip(row).c_str());
    std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Row& row) {
    const Outcome& out = row.outcome;
    return {{"order", to_string(row.trial.order)},
            {"policy", to_string(row.trial.way)},
            {"zipf_exponent", row.trial.order == Order::kUniform ? 0 : 1},
            {"keys", Stream::kKeys},
            {"aggregators", row.trial.aggregators},
            {"geometry", out.geometry},
            {"tuples", out.tuples},
            {"packets", out.packets},
            {"aggregated_share", out.aggregated_share()},
            {"upstream_share", out.upstream_share()},
            {"forwarded", out.forwarded},
            {"evicted", out.evicted},
            {"fetched", out.fetched},
            {"swaps", out.swaps},
            {"seconds", out.seconds},
            {"tuples_per_second", out.rate()},
            {"swap_seconds", out.swap_seconds},
            {"longest_swap_seconds", out.longest_swap_seconds},
            {"grace_periods", out.barrier_grace_periods},
            {"tuples_per_second_between_swaps", out.rate_between},
            {"tuples_per_second_during_swaps", out.rate_during}};
}

// One plot an order: share on the switch, or upstream, by aggregators per key.
std::string plot(const std::vector<Row>& rows, Order order, bool upstream) {
    Plot plot{.title = std::string("ASK Fig. 9, ") + to_string(order) +
                       (upstream ? ": tuples that go upstream" : ": tuples aggregated on the switch"),
              .x_label = "aggregators / distinct keys",
              .y_label = "% of tuples",
              .log_x = true,
              .series = {}};
    for (const Way way : kWays) {
        Series series{.name = to_string(way), .points = {}};
        for (const Row& row : rows) {
            if (row.trial.order == order && row.trial.way == way) {
                const double share = upstream ? row.outcome.upstream_share() : row.outcome.aggregated_share();
                series.points.push_back(
                    {static_cast<double>(row.trial.aggregators) / Stream::kKeys, 100 * share});
            }
        }
        plot.series.push_back(std::move(series));
    }
    const double ratio = static_cast<double>(1U << kPaperSize) / Stream::kKeys;
    if (!upstream && order != Order::kRandom) {
        plot.series.push_back({"the paper, 1/16", {{ratio, 100 * kPaperAggregated}}});
    }
    return draw(plot);
}

Result<> write_results(const Settings& settings, const std::vector<Row>& rows) {
    nlohmann::ordered_json json = describe_machine();
    json["swap_barrier"] = settings.barrier;
    json["paper"] = {{"aggregators", 1U << kPaperSize}, {"aggregated_share", kPaperAggregated}};
    std::vector<nlohmann::ordered_json> trials;
    trials.reserve(rows.size());
    for (const Row& row : rows) {
        trials.push_back(to_json(row));
    }
    json["trials"] = trials;
    ASK_PASS(write_file(settings.out + "/hotkeys.json", json.dump(2) + "\n"));
    ASK_PASS(write_file(settings.out + "/hotkeys.csv", to_csv(trials)));
    for (const Order order : kOrders) {
        if (!settings.wants(order)) {
            continue;
        }
        const std::string base = settings.out + "/" + to_string(order);
        ASK_PASS(write_file(base + "-aggregated.svg", plot(rows, order, false)));
        ASK_PASS(write_file(base + "-upstream.svg", plot(rows, order, true)));
    }
    return {};
}

Result<> run(const Settings& settings) {
    auto rig = Rig::create(settings.bpffs, {.swap_barrier = settings.barrier});
    ASK_PASS(rig);
    std::vector<Row> rows;
    print_head();
    for (const unsigned size : settings.sizes) {
        for (const Order order : kOrders) {
            for (const Way way : kWays) {
                if (!settings.wants(order, way)) {
                    continue;
                }
                Row row{.trial = {.order = order,
                                  .way = way,
                                  .aggregators = 1U << size,
                                  .tuples = settings.tuples},
                        .outcome = {}};
                auto outcome = run_trial(**rig, row.trial);
                ASK_PASS(outcome);
                row.outcome = *outcome;
                print(row);
                rows.push_back(row);
            }
        }
    }
    std::printf("the paper, %u aggregators: %.2f%% on the switch (with swaps; upstream not given)\n",
                1U << kPaperSize, 100 * kPaperAggregated);
    return write_results(settings, rows);
}

void fill_in(Settings& settings) {
    if (settings.tuples == 0) {
        settings.tuples = settings.quick ? kQuickTuples : kFullTuples;
    }
    if (!settings.sizes.empty()) {
        return;
    }
    if (settings.quick) {
        settings.sizes = {8, kPaperSize, kLargest};
        return;
    }
    for (unsigned size = kSmallest; size <= kLargest; ++size) {
        settings.sizes.push_back(size);
    }
}

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    ask::bench::Settings settings;
    CLI::App app("ASK Fig. 9 on the real switch program; start it by tools/bench hotkeys.",
                 "ask-bench-hotkeys");
    app.add_option("--bpffs", settings.bpffs)->required();
    app.add_option("--out", settings.out)->required();
    app.add_option("--swap-barrier", settings.barrier)->check(CLI::IsMember({"auto", "rcu"}));
    app.add_flag("--quick", settings.quick);
    app.add_option("--tuples", settings.tuples)->check(CLI::Range(1'000ULL, 10'000'000'000ULL));
    app.add_option("--sizes", settings.sizes)->delimiter(',')->check(CLI::Range(4U, 16U));
    app.add_option("--orders", settings.orders)
        ->delimiter(',')
        ->check(CLI::IsMember({"uniform", "zipf-hot-first", "zipf-hot-last", "zipf-random"}));
    app.add_option("--policies", settings.policies)
        ->delimiter(',')
        ->check(CLI::IsMember({"first-come", "swap", "replace", "replace+swap"}));
    CLI11_PARSE(app, argc, argv);
    ask::bench::fill_in(settings);
    spdlog::set_level(spdlog::level::warn);
    const auto done = ask::bench::run(settings);
    if (!done) {
        std::fprintf(stderr, "ask-bench-hotkeys: %s\n", done.error().text().c_str());
        return static_cast<int>(done.error().code());
    }
    return 0;
}
