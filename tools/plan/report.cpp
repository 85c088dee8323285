// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/placement/solve.h"
#include "lib/topology/placed.h"

namespace ask::plan {
namespace {

using placement::Objective;
using placement::SwitchId;

// Columns as wide as their widest cell; the first one left-aligned, the others right.
class TextTable {
 public:
    explicit TextTable(std::vector<std::string> heading) { rows_.push_back(std::move(heading)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

    [[nodiscard]] std::string text() const {
        std::vector<std::size_t> width(rows_.front().size(), 0);
        for (const auto& row : rows_) {
            for (std::size_t at = 0; at < row.size(); ++at) {
                width[at] = std::max(width[at], row[at].size());
            }
        }
        std::string out;
        for (const auto& row : rows_) {
            for (std::size_t at = 0; at < row.size(); ++at) {
                const std::string pad(width[at] - row[at].size(), ' ');
                out += at == 0 ? "  " + row[at] + pad : "  " + pad + row[at];
            }
            out.erase(out.find_last_not_of(' ') + 1);
            out += '\n';
        }
        return out;
    }

 private:
    std::vector<std::vector<std::string>> rows_;
};

struct Problems {
    placement::Problem messages;
    placement::Problem bytes;
};

Measures measure(const Problems& problems, const std::vector<SwitchId>& blue) {
    const placement::Cost messages = evaluate(problems.messages, blue);
    return {.utilisation = messages.total,
            .bottleneck = messages.largest,
            .bytes = evaluate(problems.bytes, blue).total};
}

std::vector<Link> make_links(const topology::Network& network, const Problems& problems,
                             const std::vector<SwitchId>& blue) {
    const placement::Cost messages = evaluate(problems.messages, blue);
    const placement::Cost bytes = evaluate(problems.bytes, blue);
    std::vector<Link> links;
    for (const SwitchId id : network.tree.top_down()) {
        const SwitchId up = network.tree.parent(id);
        links.push_back({.from = network.name[id],
                         .to = up == placement::kNoSwitch ? network.destination : network.name[up],
                         .rate = network.tree.rate(id),
                         .messages = messages.weight[id],
                         .busy = messages.weight[id] * network.tree.seconds(id),
                         .bytes = bytes.weight[id],
                         .aggregates = std::binary_search(blue.begin(), blue.end(), id)});
    }
    return links;
}

Result<std::vector<SwitchId>> choose(const topology::Network& network, const placement::SizeModel& model,
                                     const PlanRequest& request, std::vector<double>& curve) {
    if (request.strategy != placement::Strategy::kSoar) {
        return place(request.strategy, make_problem(network.tree, request.objective, model), request.k);
    }
    if (request.objective == Objective::kBottleneck) {
        auto placed = placement::solve(network.tree, request.objective, model, request.k, request.options);
        if (!placed.ok()) {
            return std::move(placed).error();
        }
        return std::move(placed->blue);
    }
    auto soar = placement::Soar::gather(make_problem(network.tree, request.objective, model), request.k,
                                        request.options);
    if (!soar.ok()) {
        return std::move(soar).error();
    }
    curve.assign(soar->curve().begin(), soar->curve().end());
    return soar->colour(request.k);
}

// Whoever names relays or addresses means to have plans carried out, and is told why this one cannot be.
bool names_addresses(const topology::Topology& topology) {
    return std::ranges::any_of(topology.switches, [](const auto& each) { return !each.relay.empty(); }) ||
           std::ranges::any_of(topology.hosts, [](const auto& each) { return each.address.has_value(); });
}

void add_placement(const topology::Planned& planned, const topology::Network& network, Report& report) {
    const auto placed = topology::placed_message(planned, network);
    if (placed.ok()) {
        report.placement = topology::placed_json(*placed);
    } else if (names_addresses(planned.fabric->topology())) {
        report.no_placement = placed.error().text();
    }
}

double of_objective(const Measures& cost, std::string_view objective) {
    if (objective == objective_name(Objective::kBottleneck)) {
        return cost.bottleneck;
    }
    return objective == objective_name(Objective::kBytes) ? cost.bytes : cost.utilisation;
}

std::string percent_of(double part, double whole) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f %%", whole > 0 ? 100 * part / whole : 100.0);
    return text.data();
}

std::string joined(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) {
        out.append(out.empty() ? "" : ", ").append(name);
    }
    return out.empty() ? "nowhere: no switch would save anything" : out;
}

}  // namespace

std::string number_text(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    return text.data();
}

Result<Report> make_report(const topology::Fabric& fabric, const topology::Network& network,
                           const placement::SizeModel& model, const PlanRequest& request) {
    const Problems problems{.messages = make_problem(network.tree, Objective::kUtilisation),
                            .bytes = make_problem(network.tree, Objective::kBytes, model)};
    Report report{.objective = std::string(objective_name(request.objective)),
                  .k = request.k,
                  .destination = network.destination,
                  .senders = network.tree.total_load(),
                  .chosen = {},
                  .contenders = {},
                  .links = {},
                  .curve = {},
                  .placement = {},
                  .no_placement = {}};
    const auto chosen = choose(network, model, request, report.curve);
    if (!chosen.ok()) {
        return chosen.error();
    }
    for (const SwitchId id : *chosen) {
        report.chosen.push_back(network.name[id]);
    }
    for (const placement::Strategy strategy : placement::kStrategies) {
        if (strategy == placement::Strategy::kSoar) {
            continue;
        }
        // Only SOAR's gather can fail.
        const bool by_bytes = request.objective == Objective::kBytes;
        const auto blue = place(strategy, by_bytes ? problems.bytes : problems.messages, request.k).value();
        report.contenders.push_back({.name = std::string(strategy_name(strategy)),
                                     .switches = blue.size(),
                                     .cost = measure(problems, blue)});
    }
    report.contenders.push_back(
        {.name = "chosen", .switches = chosen->size(), .cost = measure(problems, *chosen)});
    report.links = make_links(network, problems, *chosen);
    add_placement({.fabric = &fabric,
                   .tree = &network.tree,
                   .destination = network.destination,
                   .blue = *chosen,
                   .objective = request.objective,
                   .model = fabric.topology().message.line == 0 ? nullptr : &model},
                  network, report);
    return report;
}

std::string report_text(const Report& report) {
    std::string out = "objective    " + report.objective + ", at most " + std::to_string(report.k) + " of " +
                      std::to_string(report.links.size()) + " switches\n" + "messages     " +
                      std::to_string(report.senders) + ", to " + report.destination + "\n" + "aggregate at " +
                      joined(report.chosen) + "\n\n";
    TextTable costs({"strategy", "switches", "utilisation s", "bottleneck s", "bytes", "of all-red"});
    const double all_red = of_objective(report.contenders.front().cost, report.objective);
    for (const Contender& each : report.contenders) {
        costs.add({each.name, std::to_string(each.switches), number_text(each.cost.utilisation),
                   number_text(each.cost.bottleneck), number_text(each.cost.bytes),
                   percent_of(of_objective(each.cost, report.objective), all_red)});
    }
    TextTable links({"link", "rate /s", "messages", "busy s", "bytes", "sends"});
    for (const Link& link : report.links) {
        links.add({link.from + " -> " + link.to, number_text(link.rate), number_text(link.messages),
                   number_text(link.busy), number_text(link.bytes),
                   link.aggregates ? "aggregates" : "forwards"});
    }
    return out + costs.text() + "\n" + links.text();
}

std::string report_json(const Report& report) {
    nlohmann::ordered_json out = {{"objective", report.objective},
                                  {"k", report.k},
                                  {"destination", report.destination},
                                  {"messages", report.senders},
                                  {"aggregate", report.chosen}};
    out["costs"] = nlohmann::ordered_json::array();
    for (const Contender& each : report.contenders) {
        out["costs"].push_back({{"strategy", each.name},
                                {"switches", each.switches},
                                {"utilisation", each.cost.utilisation},
                                {"bottleneck", each.cost.bottleneck},
                                {"bytes", each.cost.bytes}});
    }
    out["links"] = nlohmann::ordered_json::array();
    for (const Link& link : report.links) {
        out["links"].push_back({{"from", link.from},
                                {"to", link.to},
                                {"rate", link.rate},
                                {"messages", link.messages},
                                {"busy", link.busy},
                                {"bytes", link.bytes},
                                {"aggregates", link.aggregates}});
    }
    out["curve"] = report.curve;
    if (!report.placement.empty()) {
        out["placement"] = nlohmann::ordered_json::parse(report.placement);
    } else if (!report.no_placement.empty()) {
        out["no_placement"] = report.no_placement;
    }
    // Names come from a file: bytes that are no UTF-8 are replaced, never thrown about.
    return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ask::plan
