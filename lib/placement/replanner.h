// SPDX-License-Identifier: Apache-2.0
//
// SOAR kept ready for the next change of a load: every table stays in memory, and a change refills only those
// on the way to the root. A switch with many children sums their tables in a balanced tree, so one child
// costs log(children) sums.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/layout.h"
#include "lib/placement/problem.h"
#include "lib/placement/tables.h"

namespace ask::placement {

class Replanner {
 public:
    // Gathers once. Objective is kUtilisation or kBytes (kUsage otherwise). kLimit if the tables, 8 bytes a
    // cell, would exceed `memory_limit` bytes.
    static Result<Replanner> create(Tree tree, Objective objective, const SizeModel& model, std::uint32_t k,
                                    std::uint64_t memory_limit = std::uint64_t{8} << 30);

    // Changes the number of servers at a switch. Errors as Tree::set_load; the plan is then unchanged.
    Result<> set_load(SwitchId id, std::uint64_t load);

    // As Soar: least cost with at most i blue switches, and such switches, ascending.
    [[nodiscard]] double cost(std::uint32_t i) const;
    [[nodiscard]] std::vector<SwitchId> colour(std::uint32_t i) const;

    [[nodiscard]] const Problem& problem() const { return problem_; }
    [[nodiscard]] std::uint64_t table_bytes() const { return table_bytes_; }

 private:
    // A sum of two neighbours: slots 0 .. children - 1 are the children's tables, later slots these.
    struct Join {
        std::uint32_t left = 0;
        std::uint32_t right = 0;
        Table table;
    };
    struct Node {
        Table table;
        std::vector<Join> joins;
        std::vector<std::uint32_t> above;  // per slot: the slot it is summed into
    };

    Replanner(Problem problem, Objective objective, SizeModel model, std::uint32_t k);

    void shape_joins(SwitchId id);
    [[nodiscard]] const Table& slot(SwitchId id, std::uint32_t index) const;
    void refill_join(SwitchId id, std::uint32_t index);
    void refill_line(SwitchId id);
    void refill_table(SwitchId id);
    [[nodiscard]] Fold step(SwitchId id) const;
    void share(SwitchId id, std::uint32_t row, std::uint32_t budget, std::vector<std::uint32_t>& out) const;

    Problem problem_;
    Objective objective_;
    SizeModel model_;
    std::uint32_t k_;
    Layout layout_;
    Reach reach_;
    std::vector<Line> lines_;
    std::vector<Node> nodes_;
    std::vector<std::uint32_t> slot_in_parent_;
    std::uint64_t table_bytes_ = 0;
};

}  // namespace ask::placement
