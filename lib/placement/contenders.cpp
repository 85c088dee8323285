// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/contenders.h"

#include <algorithm>
#include <tuple>

#include "lib/placement/soar.h"

namespace ask::placement {
namespace {

std::vector<SwitchId> available_switches(const Tree& tree) {
    std::vector<SwitchId> out;
    for (std::size_t at = 0; at < tree.size(); ++at) {
        if (tree.available(static_cast<SwitchId>(at))) {
            out.push_back(static_cast<SwitchId>(at));
        }
    }
    return out;
}

// The first k available switches in the order of `key` (smaller first).
template <typename Key>
std::vector<SwitchId> first_by(const Tree& tree, std::uint32_t k, Key key) {
    std::vector<SwitchId> out = available_switches(tree);
    const std::size_t count = std::min<std::size_t>(k, out.size());
    std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count), out.end(),
                      [&key](SwitchId a, SwitchId b) { return key(a) < key(b); });
    out.resize(count);
    std::sort(out.begin(), out.end());
    return out;
}

std::vector<SwitchId> top(const Tree& tree, std::uint32_t k) {
    return first_by(tree, k, [&tree](SwitchId id) {
        return std::tuple(tree.depth(id), kMaxTotalLoad - tree.subtree_load(id), id);
    });
}

std::vector<SwitchId> max_load(const Tree& tree, std::uint32_t k) {
    return first_by(tree, k, [&tree](SwitchId id) {
        return std::tuple(kMaxTotalLoad - tree.load(id), kMaxSwitches - tree.children(id).size(),
                          kMaxTotalLoad - tree.subtree_load(id), id);
    });
}

std::vector<SwitchId> level(const Tree& tree, std::uint32_t k) {
    const auto order = tree.top_down();
    std::vector<SwitchId> best;
    for (std::size_t begin = 0; begin < order.size();) {
        std::size_t end = begin;
        bool whole = true;
        while (end < order.size() && tree.depth(order[end]) == tree.depth(order[begin])) {
            whole = whole && tree.available(order[end]);
            ++end;
        }
        if (whole && end - begin <= k) {
            best.assign(order.begin() + static_cast<std::ptrdiff_t>(begin),
                        order.begin() + static_cast<std::ptrdiff_t>(end));
        }
        begin = end;
    }
    std::sort(best.begin(), best.end());
    return best;
}

// Making a red switch blue shortens the way of what it sends to the closest blue ancestor; nothing above
// changes.
std::vector<SwitchId> greedy(const Problem& problem, std::uint32_t k) {
    const Tree& tree = problem.tree;
    std::vector<SwitchId> blue;
    std::vector<bool> is_blue(tree.size(), false);
    std::vector<double> reach(tree.size());  // distance to the closest blue ancestor or the destination
    while (blue.size() < k) {
        const Cost cost = evaluate(problem, blue);
        SwitchId best = kNoSwitch;
        double best_saving = 0;
        for (const SwitchId id : tree.top_down()) {
            const SwitchId up = tree.parent(id);
            reach[id] = problem.length[id] + (up == kNoSwitch || is_blue[up] ? 0 : reach[up]);
            if (!tree.available(id) || is_blue[id]) {
                continue;
            }
            const double saving = (cost.weight[id] - problem.emitted[id]) * reach[id];
            if (saving > best_saving) {
                best_saving = saving;
                best = id;
            }
        }
        if (best == kNoSwitch) {
            break;
        }
        is_blue[best] = true;
        blue.push_back(best);
    }
    std::sort(blue.begin(), blue.end());
    return blue;
}

}  // namespace

std::string_view strategy_name(Strategy strategy) {
    switch (strategy) {
        case Strategy::kAllRed:
            return "all-red";
        case Strategy::kAllBlue:
            return "all-blue";
        case Strategy::kTop:
            return "top";
        case Strategy::kMax:
            return "max";
        case Strategy::kLevel:
            return "level";
        case Strategy::kGreedy:
            return "greedy";
        case Strategy::kSoar:
            return "soar";
    }
    return "unknown";
}

Result<Strategy> parse_strategy(std::string_view name) {
    std::string known;
    for (const Strategy strategy : kStrategies) {
        if (strategy_name(strategy) == name) {
            return strategy;
        }
        known += (known.empty() ? "" : ", ") + std::string(strategy_name(strategy));
    }
    return Error(Errc::kUsage, "strategy '" + std::string(name) + "' is none of " + known);
}

Result<std::vector<SwitchId>> place(Strategy strategy, const Problem& problem, std::uint32_t k) {
    switch (strategy) {
        case Strategy::kAllRed:
            break;
        case Strategy::kAllBlue:
            return available_switches(problem.tree);
        case Strategy::kTop:
            return top(problem.tree, k);
        case Strategy::kMax:
            return max_load(problem.tree, k);
        case Strategy::kLevel:
            return level(problem.tree, k);
        case Strategy::kGreedy:
            return greedy(problem, k);
        case Strategy::kSoar: {
            auto soar = Soar::gather(problem, k);
            if (!soar.ok()) {
                return std::move(soar).error();
            }
            return soar->colour(k);
        }
    }
    return std::vector<SwitchId>{};
}

}  // namespace ask::placement
