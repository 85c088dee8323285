// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/budget.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "lib/placement/tables.h"

namespace ask::placement {
namespace {

// Enough to see a mix of workloads, few enough to follow it.
constexpr std::size_t kRemembered = 16;

}  // namespace

std::vector<std::uint32_t> split_budget(std::span<const std::vector<double>> curves, std::uint32_t total) {
    // sums[w]: least cost of the first w workloads for each budget.
    std::vector<std::vector<double>> sums{{0.0}};
    for (const auto& curve : curves) {
        const std::size_t columns =
            std::min<std::size_t>(std::size_t{total} + 1, sums.back().size() + curve.size() - 1);
        std::vector<double> next(columns);
        min_plus(sums.back(), curve, next, {});
        sums.push_back(std::move(next));
    }
    std::vector<std::uint32_t> budgets(curves.size());
    auto left = static_cast<std::uint32_t>(sums.back().size() - 1);
    for (std::size_t w = curves.size(); w-- > 0;) {
        left = std::min(left, static_cast<std::uint32_t>(sums[w + 1].size() - 1));
        budgets[w] = split_of(sums[w], curves[w], left);
        left -= budgets[w];
    }
    return budgets;
}

std::vector<double> hull_savings(std::span<const double> curve) {
    std::vector<std::size_t> hull;
    const auto slope = [&curve](std::size_t a, std::size_t b) {
        return (curve[b] - curve[a]) / static_cast<double>(b - a);
    };
    for (std::size_t i = 0; i < curve.size(); ++i) {
        while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), i)) {
            hull.pop_back();
        }
        hull.push_back(i);
    }
    std::vector<double> savings;
    for (std::size_t at = 1; at < hull.size(); ++at) {
        savings.insert(savings.end(), hull[at] - hull[at - 1], -slope(hull[at - 1], hull[at]));
    }
    return savings;
}

std::uint32_t PacedBudget::choose(std::span<const double> curve) {
    recent_.push_back(hull_savings(curve));
    if (recent_.size() > kRemembered) {
        recent_.pop_front();
    }
    const std::vector<double>& own = recent_.back();
    const std::uint32_t most = static_cast<std::uint32_t>(std::min<std::size_t>(left_, own.size()));
    std::uint32_t bought = 0;
    if (expected_ <= 1) {
        bought = most;
    } else {
        const double lowest = price();
        while (bought < most && own[bought] >= lowest) {
            ++bought;
        }
    }
    left_ -= bought;
    expected_ -= expected_ > 0 ? 1 : 0;
    return bought;
}

double PacedBudget::price() const {
    std::vector<double> savings;
    for (const auto& each : recent_) {
        savings.insert(savings.end(), each.begin(), each.end());
    }
    // What saves nothing is not bought at any price.
    std::erase_if(savings, [](double saving) { return !(saving > 0); });
    const std::uint64_t share = std::uint64_t{recent_.size()} * left_ / expected_;
    if (share == 0 || savings.empty()) {
        return std::numeric_limits<double>::infinity();
    }
    const auto at = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(share, savings.size()) - 1);
    std::nth_element(savings.begin(), savings.begin() + at, savings.end(), std::greater<>());
    return savings[static_cast<std::size_t>(at)];
}

}  // namespace ask::placement
