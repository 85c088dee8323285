// SPDX-License-Identifier: Apache-2.0
//
// The shape of SOAR's tables for one tree, budget and set of candidates: known before any table is filled, so
// that the memory is known too. Internal to lib/placement.
//
// Two things keep the tables small. A table has a column per blue switch that can be of use below it, at most
// min(k, candidates in the subtree). And it has a row per place where the closest blue ancestor can be - the
// destination and each *candidate* above - where the paper keeps one per ancestor. Subtrees without a
// candidate have no table: their cost is a straight line in the distance to the closest blue ancestor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/placement/problem.h"

namespace ask::placement {

struct Layout {
    std::vector<std::uint8_t> candidate;  // may usefully be blue
    std::vector<std::uint32_t> rows;      // of the switch's table: 1 + candidates above it
    std::vector<std::uint32_t> budget;    // min(k, candidates in the subtree); 0: no table
    std::vector<std::uint32_t> inner;     // min(k, candidates strictly below)
    std::vector<std::uint32_t> first_child;
    std::vector<SwitchId> child;       // children with tables, the one with most candidates first
    std::vector<SwitchId> order;       // switches with tables, children before parents, a subtree contiguous
    std::vector<std::uint32_t> begin;  // where in `order` the subtree of each switch begins

    [[nodiscard]] std::span<const SwitchId> children(SwitchId id) const {
        return std::span(child).subspan(first_child[id], first_child[id + 1] - first_child[id]);
    }
    // Rows of the sum of the children's tables: one more than `rows` if the switch itself can be their blue
    // ancestor.
    [[nodiscard]] std::uint32_t child_rows(SwitchId id) const { return rows[id] + candidate[id]; }
};

// `candidate` has one entry per switch.
[[nodiscard]] Layout make_layout(const Tree& tree, std::uint32_t k, std::vector<std::uint8_t> candidate);

// For each switch the closest candidate above it (kNoSwitch: the destination) and the sum of link lengths up
// to it. Rows are walked from candidate to candidate, so a long way through switches that cannot aggregate
// costs one step.
struct Reach {
    std::vector<SwitchId> up;
    std::vector<double> distance;
};

[[nodiscard]] Reach make_reach(const Problem& problem, const Layout& layout);

// The part of a switch's cost that no placement below it can change: `fixed + slope * distance`, where
// distance is that of the switch to its closest blue ancestor. Children without tables and the switch's own
// load are in it.
struct Line {
    double fixed = 0;
    double slope = 0;
};

[[nodiscard]] std::vector<Line> make_lines(const Problem& problem, const Layout& layout);

}  // namespace ask::placement
