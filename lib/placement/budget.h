// SPDX-License-Identifier: Apache-2.0
//
// How many aggregating switches each of many workloads should get: the question that SOAR leaves open
// (section 8) and answers with the same k for all. A workload's cost curve (Soar::curve) says what each
// further switch saves.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace ask::placement {

// With all curves at hand: budgets with a sum of at most `total` and the least sum of costs, exactly. Each
// curve is not empty and does not increase. O(workloads * total * longest curve).
[[nodiscard]] std::vector<std::uint32_t> split_budget(std::span<const std::vector<double>> curves,
                                                      std::uint32_t total);

// With workloads arriving one at a time and their number known: a heuristic. It sets a price per switch such
// that the last few workloads, this one included, would together spend their share of what is left, and
// buys for this workload whatever saves at least that price. Never spends more than `total` in all.
// Only the last few count because curves shrink while the switches' capacity runs out.
class PacedBudget {
 public:
    PacedBudget(std::uint32_t total, std::uint32_t workloads) : left_(total), expected_(workloads) {}

    // The budget for the next workload, whose curve this is; what it buys is taken off. After the expected
    // number of workloads, each further one is treated as the last.
    std::uint32_t choose(std::span<const double> curve);

    // Where workloads end, too, and give back what they had: what is left now, and how many are to come. The
    // last few stay known.
    void resume(std::uint32_t left, std::uint32_t workloads) {
        left_ = left;
        expected_ = workloads;
    }

    [[nodiscard]] std::uint32_t left() const { return left_; }

 private:
    // Saving below which a switch is not bought now.
    [[nodiscard]] double price() const;

    std::uint32_t left_;
    std::uint32_t expected_;                  // workloads still to come
    std::deque<std::vector<double>> recent_;  // savings per switch of the last workloads
};

// Savings per further switch along the lower convex hull of a curve: not increasing; as many as the curve has
// steps.
[[nodiscard]] std::vector<double> hull_savings(std::span<const double> curve);

}  // namespace ask::placement
