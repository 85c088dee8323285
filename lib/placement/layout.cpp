// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/layout.h"

#include <algorithm>
#include <utility>

namespace ask::placement {
namespace {

// Children with tables, heaviest first: the heavy child's table becomes the parent's accumulator, so that on
// any path only the few light steps hold an accumulator each.
void order_children(const Tree& tree, const std::vector<std::uint32_t>& below, Layout& layout) {
    layout.first_child.assign(tree.size() + 1, 0);
    for (std::size_t at = 0; at < tree.size(); ++at) {
        const auto id = static_cast<SwitchId>(at);
        const auto begin = static_cast<std::ptrdiff_t>(layout.child.size());
        for (const SwitchId child : tree.children(id)) {
            if (layout.budget[child] > 0) {
                layout.child.push_back(child);
            }
        }
        std::sort(layout.child.begin() + begin, layout.child.end(), [&below](SwitchId a, SwitchId b) {
            return below[a] != below[b] ? below[a] > below[b] : a < b;
        });
        layout.first_child[at + 1] = static_cast<std::uint32_t>(layout.child.size());
    }
}

// A loop with its own stack: trees as deep as they have switches must not exhaust the thread's.
void order_switches(const Tree& tree, Layout& layout) {
    layout.begin.assign(tree.size(), 0);
    if (layout.budget[tree.root()] == 0) {
        return;
    }
    struct Visit {
        SwitchId id;
        std::uint32_t next;
    };
    std::vector<Visit> stack{{tree.root(), 0}};
    while (!stack.empty()) {
        Visit& top = stack.back();
        const auto children = layout.children(top.id);
        if (top.next < children.size()) {
            const SwitchId child = children[top.next++];
            layout.begin[child] = static_cast<std::uint32_t>(layout.order.size());
            stack.push_back({child, 0});
        } else {
            layout.order.push_back(top.id);
            stack.pop_back();
        }
    }
}

}  // namespace

Layout make_layout(const Tree& tree, std::uint32_t k, std::vector<std::uint8_t> candidate) {
    Layout layout;
    layout.candidate = std::move(candidate);
    layout.rows.assign(tree.size(), 1);
    std::vector<std::uint32_t> below(tree.size(), 0);  // candidates in the subtree
    for (const SwitchId id : tree.top_down()) {
        below[id] = layout.candidate[id];
        if (tree.parent(id) != kNoSwitch) {
            layout.rows[id] = layout.rows[tree.parent(id)] + layout.candidate[tree.parent(id)];
        }
    }
    const auto order = tree.top_down();
    for (std::size_t at = order.size(); at-- > 1;) {
        below[tree.parent(order[at])] += below[order[at]];
    }
    layout.budget.resize(tree.size());
    layout.inner.resize(tree.size());
    for (std::size_t id = 0; id < tree.size(); ++id) {
        layout.budget[id] = std::min(k, below[id]);
        layout.inner[id] = std::min(k, below[id] - layout.candidate[id]);
    }
    order_children(tree, below, layout);
    order_switches(tree, layout);
    return layout;
}

Reach make_reach(const Problem& problem, const Layout& layout) {
    const Tree& tree = problem.tree;
    Reach reach{.up = std::vector<SwitchId>(tree.size(), kNoSwitch), .distance = problem.length};
    for (const SwitchId id : tree.top_down()) {
        const SwitchId parent = tree.parent(id);
        if (parent == kNoSwitch || layout.candidate[parent] != 0) {
            reach.up[id] = parent;
        } else {
            reach.up[id] = reach.up[parent];
            reach.distance[id] += reach.distance[parent];
        }
    }
    return reach;
}

std::vector<Line> make_lines(const Problem& problem, const Layout& layout) {
    const Tree& tree = problem.tree;
    std::vector<Line> lines(tree.size());
    const auto order = tree.top_down();
    for (std::size_t at = order.size(); at-- > 0;) {
        const SwitchId id = order[at];
        lines[id].slope += problem.raw * static_cast<double>(tree.load(id));
        if (at > 0 && layout.budget[id] == 0) {
            Line& up = lines[tree.parent(id)];
            up.fixed += lines[id].fixed + lines[id].slope * problem.length[id];
            up.slope += lines[id].slope;
        }
    }
    return lines;
}

}  // namespace ask::placement
