// SPDX-License-Identifier: Apache-2.0
//
// SOAR's tables and the two steps that fill them. Internal to lib/placement.
//
// The table X of a switch v says, for row r (where the closest blue ancestor of v is) and column i (blue
// switches allowed in v's subtree, used or not), the least cost of everything that the subtree causes up to
// that ancestor (the potential of Eq. 4). Rows run from the destination (0) down to the closest candidate
// ancestor, so a row number means the same ancestor in every table below it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/placement/layout.h"

namespace ask::placement {

struct Table {
    std::uint32_t rows = 0;
    std::uint32_t columns = 0;
    std::vector<double> cell;

    Table() = default;
    Table(std::uint32_t row_count, std::uint32_t column_count)
        : rows(row_count), columns(column_count), cell(std::size_t{row_count} * column_count) {}

    [[nodiscard]] std::span<double> row(std::uint32_t r) {
        return std::span(cell).subspan(std::size_t{r} * columns, columns);
    }
    [[nodiscard]] std::span<const double> row(std::uint32_t r) const {
        return std::span(cell).subspan(std::size_t{r} * columns, columns);
    }
    [[nodiscard]] std::uint64_t bytes() const { return cell.size() * sizeof(double); }
};

// Distances of `id` to the ancestor of each of its rows: the sum of link lengths on the way. Sums, never
// differences, so no digits cancel.
void distances(const Reach& reach, const Layout& layout, SwitchId id, std::vector<double>& out);

// out[i] = min over j of left[i - j] + right[j], for i < out.size() <= left.size() + right.size() - 1; of
// several such j the smallest. `pick`, if not empty, receives j (as a double: one vector width for the whole
// loop).
void min_plus(std::span<const double> left, std::span<const double> right, std::span<double> out,
              std::span<double> pick);

// Some j at which the minimum of min_plus at column i is reached: the smallest.
[[nodiscard]] std::uint32_t split_of(std::span<const double> left, std::span<const double> right,
                                     std::uint32_t i);

// One cell of the table of `id` from the sum of its children's tables (`below`, with child_rows() rows; null:
// no child has a table): red keeps the closest ancestor of row r for the children, blue is itself that
// ancestor.
struct Fold {
    const Table* below = nullptr;
    Line line;
    double emitted = 0;
    bool candidate = false;

    [[nodiscard]] double red(std::uint32_t r, std::uint32_t i, double distance) const;
    // `i` >= 1 and candidate.
    [[nodiscard]] double blue(std::uint32_t i, double distance) const;
};

// Fills the whole table of a switch. `is_blue`, if not empty, gets 1 for every cell where blue is strictly
// better.
[[nodiscard]] Table fold(const Fold& step, std::span<const double> distance, std::uint32_t budget,
                         std::span<std::uint8_t> is_blue);

}  // namespace ask::placement
