// SPDX-License-Identifier: Apache-2.0
//
// tools/bench switchagg: SwitchAgg's Eq. 3, Figs. 2 and 9 and Table 3 on the real switch program. A line a
// trial on stdout; CSV, JSON and plots in --out, of which bench/switchagg/run makes the whole.
#include <unistd.h>

#include <algorithm>
#include <chrono>
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
#include "bench/switchagg/costs.h"
#include "bench/switchagg/figures.h"
#include "bench/switchagg/hops.h"

namespace ask::bench {
namespace {

constexpr unsigned kMappers = 3;
constexpr std::uint64_t kGib = 1ULL << 30U;

struct Settings {
    std::string bpffs;
    std::string out;
    std::vector<std::string> parts{"eq3", "fig2a", "fig2b", "fig9", "costs"};
    Scale scale;

    [[nodiscard]] bool wants(const std::string& part) const {
        return std::ranges::find(parts, part) != parts.end();
    }
};

struct Row {
    Plan plan;
    Outcome outcome;

    [[nodiscard]] double keys() const { return static_cast<double>(plan.trial.keys.count); }
    [[nodiscard]] double pairs() const { return static_cast<double>(outcome.tuples); }
};

// One line on a terminal, which the next result takes the place of.
class ProgressLine {
 public:
    void show(const std::string& what, double part) {
        const auto now = std::chrono::steady_clock::now();
        if (!terminal_ || now - shown_ < std::chrono::milliseconds(250)) {
            return;
        }
        shown_ = now;
        std::fprintf(stderr, "\r\033[K%s: %.0f %%", what.c_str(), 100 * part);
    }
    void clear() const {
        if (terminal_) {
            std::fputs("\r\033[K", stderr);
        }
    }

 private:
    const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
    std::chrono::steady_clock::time_point shown_;
};

void print_head() {
    std::printf("%-13s %-17s %8s %9s %10s %9s %9s %9s %9s %9s %8s %9s\n", "figure", "series", "x", "keys",
                "pairs", "before", "reduction", "1 - N/M", "Eq. 3", "evict", "ns", "fetch, ms");
}

void print(const Row& row) {
    const Outcome& out = row.outcome;
    const double capacity = row.plan.capacity;
    const std::string formula =
        capacity == 0 ? "" : std::to_string(100 * eq3(row.keys(), capacity, row.pairs())).substr(0, 5) + "%";
    std::printf("%-13s %-17s %8.4g %9llu %10llu %8.2f%% %8.2f%% %8.2f%% %9s %8.2f%% %8.1f %9.1f\n",
                row.plan.figure.c_str(), row.plan.series.c_str(), row.plan.x,
                static_cast<unsigned long long>(row.plan.trial.keys.count),
                static_cast<unsigned long long>(out.tuples), 100 * out.reduction_before_fetch(),
                100 * out.reduction(), 100 * out.bound(), formula.c_str(), 100 * out.evict_reduction(),
                1e9 * out.seconds / row.pairs(), 1e3 * out.fetch_seconds);
    std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Row& row) {
    const Outcome& out = row.outcome;
    const Keys& keys = row.plan.trial.keys;
    const double capacity = row.plan.capacity;
    return {{"figure", row.plan.figure},
            {"series", row.plan.series},
            {"x", row.plan.x},
            {"keys", keys.count},
            {"exponent", keys.exponent},
            {"shortest_key", keys.shortest},
            {"longest_key", keys.longest},
            {"geometry", out.geometry},
            {"capacity", capacity},
            {"front_places", out.front_places},
            {"back_bytes", out.back_bytes},
            {"pairs", out.tuples},
            {"distinct", out.distinct},
            {"packets", out.packets},
            {"packets_acked", out.acked},
            {"back", out.back},
            {"left", out.left},
            {"left_collision", out.left_collision},
            {"left_back_full", out.left_back_full},
            {"fetched", out.fetched},
            {"reduction_before_fetch", out.reduction_before_fetch()},
            {"reduction", out.reduction()},
            {"bound", out.bound()},
            {"eq3", capacity == 0 ? 0 : eq3(row.keys(), capacity, row.pairs())},
            {"eq3_kept", eq3_kept(row.keys(), static_cast<double>(row.plan.kept), row.pairs())},
            {"eq3_hashed", capacity == 0 ? 0 : eq3_hashed(row.keys(), capacity, row.pairs())},
            {"evict_model", out.evict_reduction()},
            {"ns_pair", 1e9 * out.seconds / row.pairs()},
            {"fetch_seconds", out.fetch_seconds}};
}

// The figure's points, a line a series; Eq. 3 beside them where it speaks of them.
std::string plot(const std::vector<Row>& rows, const std::string& figure, const char* title,
                 const char* x_label, bool log_x) {
    Plot plot{.title = title, .x_label = x_label, .y_label = "reduction, %", .log_x = log_x, .series = {}};
    const auto add = [&plot](const std::string& name, double x, double y) {
        auto series = std::ranges::find(plot.series, name, &Series::name);
        if (series == plot.series.end()) {
            series = plot.series.insert(series, {.name = name, .points = {}});
        }
        series->points.push_back({.x = x, .y = 100 * y});
    };
    for (const Row& row : rows) {
        if (row.plan.figure != figure) {
            continue;
        }
        add(row.plan.series, row.plan.x, row.outcome.reduction());
        if (log_x && row.plan.series == "front") {
            add("Eq. 3", row.plan.x, eq3(row.keys(), row.plan.capacity, row.pairs()));
            add("SwitchAgg's rule (model)", row.plan.x, row.outcome.evict_reduction());
        }
    }
    return plot.series.empty() ? std::string() : draw(plot);
}

Result<> write_plots(const Settings& settings, const std::vector<Row>& rows) {
    struct Figure {
        const char* name;
        const char* title;
        const char* x_label;
        bool log_x;
    };
    for (const Figure& figure :
         {Figure{"eq3", "SwitchAgg Eq. 3: reduction by different keys", "keys / places", true},
          Figure{"fig2a", "SwitchAgg Fig. 2(a): reduction by different keys, no back level", "keys / places",
                 true},
          Figure{"fig9-uniform", "SwitchAgg Fig. 9, uniform keys, what is fetched counted",
                 "data, GB x scale", false},
          Figure{"fig9-zipf", "SwitchAgg Fig. 9, Zipf .99, what is fetched counted", "data, GB x scale",
                 false}}) {
        const std::string svg = plot(rows, figure.name, figure.title, figure.x_label, figure.log_x);
        if (!svg.empty()) {
            ASK_PASS(write_file(settings.out + "/" + figure.name + ".svg", svg));
        }
    }
    return {};
}

// A line a hop.
Result<std::vector<nlohmann::ordered_json>> measure_hops(Rig& rig, std::uint64_t keys) {
    std::vector<nlohmann::ordered_json> lines;
    for (const HopPlan& plan : plan_hops(keys)) {
        const auto hops = run_hops(rig, plan);
        ASK_PASS(hops);
        std::printf("fig2b %-8s %-14s %-9s", plan.exponent == 0 ? "uniform" : "zipf", to_string(plan.rule),
                    plan.own_hash ? "own hash" : "same hash");
        for (const HopOutcome& hop : *hops) {
            const auto pairs = static_cast<double>(plan.pairs);
            std::printf(" %8.2f%%", 100 * static_cast<double>(hop.left) / pairs);
            lines.push_back({{"keys", plan.keys},
                             {"exponent", plan.exponent},
                             {"rule", to_string(plan.rule)},
                             {"hash", plan.own_hash ? "own" : "same"},
                             {"places", hop.places},
                             {"pairs", plan.pairs},
                             {"hop", hop.hop},
                             {"in", hop.in},
                             {"left", hop.left},
                             {"out", hop.out},
                             {"left_share", static_cast<double>(hop.left) / pairs},
                             {"out_share", static_cast<double>(hop.out) / pairs}});
        }
        std::printf("\n");
        std::fflush(stdout);
    }
    return lines;
}

struct Measured {
    std::vector<Row> rows;
    std::vector<nlohmann::ordered_json> hops;
    std::vector<nlohmann::ordered_json> costs;
};

Result<> write_results(const Settings& settings, const Measured& measured) {
    const auto& [rows, hops, costs] = measured;
    std::vector<nlohmann::ordered_json> lines;
    lines.reserve(rows.size());
    for (const Row& row : rows) {
        lines.push_back(to_json(row));
    }
    nlohmann::ordered_json json = describe_machine();
    json["scale"] = settings.scale.of_paper;
    json["scale_fig2a"] = settings.scale.of_fig2;
    json["points"] = lines;
    json["hops"] = hops;
    json["costs"] = costs;
    ASK_PASS(write_file(settings.out + "/measured.json", json.dump(2) + "\n"));
    ASK_PASS(write_file(settings.out + "/points.csv", to_csv(lines)));
    ASK_PASS(write_file(settings.out + "/costs.csv", to_csv(costs)));
    return write_plots(settings, rows);
}

std::vector<Plan> plan(const Settings& settings) {
    std::vector<Plan> plans;
    const auto add = [&](const char* part, std::vector<Plan> more) {
        if (settings.wants(part)) {
            std::ranges::move(more, std::back_inserter(plans));
        }
    };
    add("eq3", plan_eq3(settings.scale));
    add("fig2a", plan_fig2a(settings.scale));
    add("fig9", plan_fig9(settings.scale));
    return plans;
}

Result<std::vector<Row>> measure(Rig& rig, const std::vector<Plan>& plans) {
    std::vector<Row> rows;
    ProgressLine line;
    if (!plans.empty()) {
        print_head();
    }
    for (const Plan& plan : plans) {
        const std::string what = plan.figure + ", " + plan.series + " (" + std::to_string(rows.size() + 1) +
                                 " of " + std::to_string(plans.size()) + ")";
        const auto outcome = run_trial(rig, plan.trial, [&](double part) { line.show(what, part); });
        line.clear();
        ASK_TRY(outcome, what);
        rows.push_back({plan, *outcome});
        print(rows.back());
    }
    return rows;
}

Result<> run(const Settings& settings) {
    auto rig =
        Rig::create(settings.bpffs, {.channels = kMappers, .sram_bytes = 4 * kGib, .back_bytes = 16 * kGib});
    ASK_PASS(rig);
    Measured measured;
    auto rows = measure(**rig, plan(settings));
    ASK_PASS(rows);
    measured.rows = *std::move(rows);
    if (settings.wants("fig2b")) {
        auto hops = measure_hops(**rig, settings.scale.places);
        ASK_PASS(hops);
        measured.hops = *std::move(hops);
    }
    if (settings.wants("costs")) {
        auto costs = measure_costs(**rig, settings.scale.cost_keys);
        ASK_PASS(costs);
        measured.costs = *std::move(costs);
    }
    return write_results(settings, measured);
}

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    ask::bench::Settings settings;
    CLI::App app("SwitchAgg's figures on the real switch program; start it by tools/bench switchagg.",
                 "ask-bench-switchagg");
    app.add_option("--bpffs", settings.bpffs)->required();
    app.add_option("--out", settings.out)->required();
    app.add_option("--parts", settings.parts)
        ->delimiter(',')
        ->check(CLI::IsMember({"eq3", "fig2a", "fig2b", "fig9", "costs"}));
    app.add_option("--scale", settings.scale.of_paper)->check(CLI::Range(1e-5, 1.0));
    app.add_option("--scale-fig2a", settings.scale.of_fig2)->check(CLI::Range(1e-5, 1.0));
    app.add_option("--places", settings.scale.places)->check(CLI::Range(256U, 1U << 24U));
    app.add_option("--cost-keys", settings.scale.cost_keys)->check(CLI::Range(1000U, 100'000'000U));
    app.add_option("--gigabytes", settings.scale.gigabytes)->delimiter(',')->check(CLI::Range(1U, 1000U));
    app.add_option("--fronts", settings.scale.fronts)->delimiter(',')->check(CLI::Range(1U, 1000U));
    CLI11_PARSE(app, argc, argv);
    spdlog::set_level(spdlog::level::err);
    const auto done = ask::bench::run(settings);
    if (!done) {
        std::fprintf(stderr, "ask-bench-switchagg: %s\n", done.error().text().c_str());
        return static_cast<int>(done.error().code());
    }
    return 0;
}
