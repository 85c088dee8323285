// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/tables.h"

#include <algorithm>
#include <limits>

namespace ask::placement {

void distances(const Reach& reach, const Layout& layout, SwitchId id, std::vector<double>& out) {
    out.resize(layout.rows[id]);
    double distance = 0;
    for (std::uint32_t row = layout.rows[id]; row-- > 0;) {
        distance += reach.distance[id];
        out[row] = distance;
        id = reach.up[id];
    }
}

void min_plus(std::span<const double> left, std::span<const double> right, std::span<double> out,
              std::span<double> pick) {
    std::fill(out.begin(), out.end(), std::numeric_limits<double>::infinity());
    for (std::size_t j = 0; j < right.size() && j < out.size(); ++j) {
        const std::size_t count = std::min(left.size(), out.size() - j);
        const double add = right[j];
        const double* const from = left.data();
        double* const to = out.data() + j;
        if (pick.empty()) {
            for (std::size_t i = 0; i < count; ++i) {
                const double sum = from[i] + add;
                to[i] = sum < to[i] ? sum : to[i];
            }
            continue;
        }
        double* const chosen = pick.data() + j;
        const auto mark = static_cast<double>(j);
        for (std::size_t i = 0; i < count; ++i) {
            const double sum = from[i] + add;
            const bool better = sum < to[i];
            to[i] = better ? sum : to[i];
            chosen[i] = better ? mark : chosen[i];
        }
    }
}

std::uint32_t split_of(std::span<const double> left, std::span<const double> right, std::uint32_t i) {
    double best = std::numeric_limits<double>::infinity();
    std::uint32_t at = 0;
    for (std::uint32_t j = 0; j < right.size() && j <= i; ++j) {
        if (i - j < left.size() && left[i - j] + right[j] < best) {
            best = left[i - j] + right[j];
            at = j;
        }
    }
    return at;
}

double Fold::red(std::uint32_t r, std::uint32_t i, double distance) const {
    const double own = line.fixed + line.slope * distance;
    return below == nullptr ? own : own + below->row(r)[std::min(i, below->columns - 1)];
}

double Fold::blue(std::uint32_t i, double distance) const {
    const double own = line.fixed + emitted * distance;
    return below == nullptr ? own : own + below->row(below->rows - 1)[std::min(i - 1, below->columns - 1)];
}

Table fold(const Fold& step, std::span<const double> distance, std::uint32_t budget,
           std::span<std::uint8_t> is_blue) {
    Table table(static_cast<std::uint32_t>(distance.size()), budget + 1);
    for (std::uint32_t r = 0; r < table.rows; ++r) {
        const auto row = table.row(r);
        for (std::uint32_t i = 0; i <= budget; ++i) {
            row[i] = step.red(r, i, distance[r]);
            if (!step.candidate || i == 0) {
                continue;
            }
            const double blue = step.blue(i, distance[r]);
            if (blue < row[i]) {
                row[i] = blue;
                if (!is_blue.empty()) {
                    is_blue[std::size_t{r} * table.columns + i] = 1;
                }
            }
        }
    }
    return table;
}

}  // namespace ask::placement
