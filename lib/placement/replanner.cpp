// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/replanner.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ask::placement {
namespace {

// Availability alone: which tables exist must not change with the loads.
std::vector<std::uint8_t> available(const Tree& tree) {
    std::vector<std::uint8_t> candidate(tree.size());
    for (std::size_t at = 0; at < tree.size(); ++at) {
        candidate[at] = tree.available(static_cast<SwitchId>(at)) ? 1 : 0;
    }
    return candidate;
}

}  // namespace

Replanner::Replanner(Problem problem, Objective objective, SizeModel model, std::uint32_t k)
    : problem_(std::move(problem)),
      objective_(objective),
      model_(std::move(model)),
      k_(k),
      layout_(make_layout(problem_.tree, k, available(problem_.tree))),
      reach_(make_reach(problem_, layout_)),
      lines_(make_lines(problem_, layout_)),
      nodes_(problem_.tree.size()),
      slot_in_parent_(problem_.tree.size(), 0) {
    for (const SwitchId id : layout_.order) {
        shape_joins(id);
    }
}

Result<Replanner> Replanner::create(Tree tree, Objective objective, const SizeModel& model, std::uint32_t k,
                                    std::uint64_t memory_limit) {
    if (objective == Objective::kBottleneck) {
        return Error(Errc::kUsage, "the bottleneck objective is not replanned incrementally; plan it anew");
    }
    Replanner planner(make_problem(std::move(tree), objective, model), objective, model, k);
    if (planner.table_bytes_ > memory_limit) {
        return Error(Errc::kLimit, "keeping the tables takes " + std::to_string(planner.table_bytes_) +
                                       " bytes, above the limit of " + std::to_string(memory_limit) +
                                       "; lower k or make fewer switches available");
    }
    for (const SwitchId id : planner.layout_.order) {
        const auto joins = static_cast<std::uint32_t>(planner.nodes_[id].joins.size());
        const auto children = static_cast<std::uint32_t>(planner.layout_.children(id).size());
        for (std::uint32_t join = 0; join < joins; ++join) {
            planner.refill_join(id, children + join);
        }
        planner.refill_table(id);
    }
    return planner;
}

void Replanner::shape_joins(SwitchId id) {
    const auto children = layout_.children(id);
    Node& node = nodes_[id];
    std::vector<std::uint64_t> columns;
    std::vector<std::uint32_t> open;
    for (std::uint32_t at = 0; at < children.size(); ++at) {
        slot_in_parent_[children[at]] = at;
        columns.push_back(layout_.budget[children[at]] + std::uint64_t{1});
        open.push_back(at);
    }
    while (open.size() > 1) {
        std::vector<std::uint32_t> next;
        for (std::size_t at = 0; at + 1 < open.size(); at += 2) {
            const auto index = static_cast<std::uint32_t>(columns.size());
            columns.push_back(std::min<std::uint64_t>(k_, columns[open[at]] + columns[open[at + 1]] - 2) + 1);
            table_bytes_ += layout_.child_rows(id) * columns.back() * sizeof(double);
            node.joins.push_back({.left = open[at], .right = open[at + 1], .table = {}});
            next.push_back(index);
        }
        if (open.size() % 2 == 1) {
            next.push_back(open.back());
        }
        open = std::move(next);
    }
    node.above.assign(columns.size(), 0);
    for (std::uint32_t at = 0; at < node.joins.size(); ++at) {
        const auto index = static_cast<std::uint32_t>(children.size()) + at;
        node.above[node.joins[at].left] = index;
        node.above[node.joins[at].right] = index;
    }
    table_bytes_ += layout_.rows[id] * (layout_.budget[id] + std::uint64_t{1}) * sizeof(double);
}

const Table& Replanner::slot(SwitchId id, std::uint32_t index) const {
    const auto children = layout_.children(id);
    return index < children.size() ? nodes_[children[index]].table
                                   : nodes_[id].joins[index - children.size()].table;
}

void Replanner::refill_join(SwitchId id, std::uint32_t index) {
    Join& join = nodes_[id].joins[index - layout_.children(id).size()];
    const Table& left = slot(id, join.left);
    const Table& right = slot(id, join.right);
    const std::uint32_t columns = std::min(k_, left.columns + right.columns - 2) + 1;
    if (join.table.columns != columns) {
        join.table = Table(left.rows, columns);
    }
    for (std::uint32_t row = 0; row < left.rows; ++row) {
        min_plus(left.row(row), right.row(row), join.table.row(row), {});
    }
}

// In the order of make_lines, so that a replanned cost has the same digits as a fresh one.
void Replanner::refill_line(SwitchId id) {
    Line line;
    const auto children = problem_.tree.children(id);
    for (std::size_t at = children.size(); at-- > 0;) {
        const SwitchId child = children[at];
        if (layout_.budget[child] == 0) {
            line.fixed += lines_[child].fixed + lines_[child].slope * problem_.length[child];
            line.slope += lines_[child].slope;
        }
    }
    line.slope += problem_.raw * static_cast<double>(problem_.tree.load(id));
    lines_[id] = line;
}

Fold Replanner::step(SwitchId id) const {
    const auto slots = static_cast<std::uint32_t>(nodes_[id].above.size());
    return {.below = slots > 0 ? &slot(id, slots - 1) : nullptr,
            .line = lines_[id],
            .emitted = problem_.emitted[id],
            .candidate = layout_.candidate[id] != 0};
}

void Replanner::refill_table(SwitchId id) {
    std::vector<double> distance;
    distances(reach_, layout_, id, distance);
    nodes_[id].table = fold(step(id), distance, layout_.budget[id], {});
}

Result<> Replanner::set_load(SwitchId id, std::uint64_t load) {
    ASK_TRY(problem_.tree.set_load(id, load), "replan");
    bool below_has_table = false;
    for (SwitchId at = id; at != kNoSwitch; at = problem_.tree.parent(at)) {
        if (objective_ == Objective::kBytes) {
            problem_.emitted[at] = model_.bytes(problem_.tree.subtree_load(at));
        }
        if (!below_has_table) {
            refill_line(at);
        }
        if (layout_.budget[at] == 0) {
            continue;
        }
        refill_table(at);
        below_has_table = true;
        const SwitchId up = problem_.tree.parent(at);
        if (up == kNoSwitch) {
            break;
        }
        const auto top = static_cast<std::uint32_t>(nodes_[up].above.size() - 1);
        for (std::uint32_t index = slot_in_parent_[at]; index != top;) {
            index = nodes_[up].above[index];
            refill_join(up, index);
        }
    }
    return {};
}

double Replanner::cost(std::uint32_t i) const {
    const SwitchId root = problem_.tree.root();
    if (layout_.order.empty()) {
        return lines_[root].fixed + lines_[root].slope * problem_.length[root];
    }
    const auto row = nodes_[root].table.row(0);
    return row[std::min<std::size_t>(i, row.size() - 1)];
}

// How many of `budget` blue switches go below each child of `id`, whose closest blue ancestor is that of
// `row`.
void Replanner::share(SwitchId id, std::uint32_t row, std::uint32_t budget,
                      std::vector<std::uint32_t>& out) const {
    const auto children = layout_.children(id);
    out.assign(nodes_[id].above.size(), 0);
    if (out.empty()) {
        return;
    }
    out.back() = budget;
    for (std::size_t index = out.size(); index-- > children.size();) {
        const Join& join = nodes_[id].joins[index - children.size()];
        const std::uint32_t here = std::min(out[index], join.table.columns - 1);
        out[join.right] = split_of(slot(id, join.left).row(row), slot(id, join.right).row(row), here);
        out[join.left] = here - out[join.right];
    }
    out.resize(children.size());
}

std::vector<SwitchId> Replanner::colour(std::uint32_t i) const {
    std::vector<SwitchId> blue;
    if (layout_.order.empty()) {
        return blue;
    }
    const SwitchId root = problem_.tree.root();
    i = std::min(i, layout_.budget[root]);
    while (i > 0 && cost(i - 1) == cost(i)) {
        --i;
    }
    struct Visit {
        SwitchId id;
        std::uint32_t row;
        std::uint32_t budget;
    };
    std::vector<Visit> open{{root, 0, i}};
    std::vector<double> distance;
    std::vector<std::uint32_t> shares;
    while (!open.empty()) {
        auto [id, row, budget] = open.back();
        open.pop_back();
        budget = std::min(budget, layout_.budget[id]);
        if (budget == 0) {
            continue;
        }
        distances(reach_, layout_, id, distance);
        const Fold here = step(id);
        if (here.candidate && here.blue(budget, distance[row]) < here.red(row, budget, distance[row])) {
            blue.push_back(id);
            row = layout_.rows[id];
            --budget;
        }
        share(id, row, budget, shares);
        const auto children = layout_.children(id);
        for (std::size_t at = 0; at < children.size(); ++at) {
            open.push_back({children[at], row, shares[at]});
        }
    }
    std::sort(blue.begin(), blue.end());
    return blue;
}

}  // namespace ask::placement
