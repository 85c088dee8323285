// SPDX-License-Identifier: Apache-2.0
//
// How often a quantity fell between fixed bounds, as Prometheus counts it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace ask {

// One in `Bounds.size() + 1` buckets: up to the first bound, up to the second, ..., above all. Not
// thread-safe.
template <std::size_t kBounds>
class Histogram {
 public:
    // Ascending, and outlives it.
    explicit constexpr Histogram(const std::array<double, kBounds>& bounds) : bounds_(&bounds) {}

    void add(double value) {
        const auto bucket = std::distance(bounds_->begin(), std::ranges::lower_bound(*bounds_, value));
        ++counts_[static_cast<std::size_t>(bucket)];
        sum_ += value;
    }
    // Each bucket's own, not those below it.
    [[nodiscard]] std::span<const std::uint64_t> counts() const { return counts_; }
    [[nodiscard]] std::span<const double> bounds() const { return *bounds_; }
    [[nodiscard]] double sum() const { return sum_; }

 private:
    const std::array<double, kBounds>* bounds_;
    std::array<std::uint64_t, kBounds + 1> counts_{};
    double sum_ = 0;
};

}  // namespace ask
