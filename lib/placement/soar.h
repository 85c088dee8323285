// SPDX-License-Identifier: Apache-2.0
//
// SOAR: the placement of at most k aggregating switches with the least total cost, exactly (SOAR, algorithms
// 2-4).
//
// Where this differs from the paper's listing, and why the optimum is the same:
// - "at most k" in every table (the paper fixes exactly k), so more budget never costs more;
// - children are summed under budgets bounded by what is below them, so gathering takes O(n h k) steps,
// inside the
//   paper's O(n h k^2);
// - weights differ per switch (problem.h), which makes bytes an exact objective too.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/problem.h"

namespace ask::placement {

struct SoarOptions {
    unsigned threads =
        1;  // gather independent subtrees on this many threads; the result does not depend on it
    std::uint64_t memory_limit = std::uint64_t{8} << 30;  // bytes for the trace of the gather phase
};

class Soar {
 public:
    // Runs SOAR-Gather. kLimit if trace_bytes() would exceed the limit; the text says what it takes.
    static Result<Soar> gather(Problem problem, std::uint32_t k, const SoarOptions& options = {});

    // Least cost with at most i blue switches, for i = 0 .. curve().size() - 1 <= k; the last holds beyond.
    [[nodiscard]] std::span<const double> curve() const { return curve_; }
    [[nodiscard]] double cost(std::uint32_t i) const;

    // Runs SOAR-Color for a budget of i: the blue switches, ascending. Never more than needed for the
    // optimum's cost.
    [[nodiscard]] std::vector<SwitchId> colour(std::uint32_t i) const;

    // Memory kept for colouring, exactly. Per candidate switch (available, with at least two servers below):
    // rows * (min(k, candidates below and itself) + 1) bytes; per child after the first:
    // rows * (min(k, candidates in it and the children before it) + 1) * w bytes, w = 1 for k <= 255, 2 for
    // k <= 65535, else 4. rows = 1 + candidate ancestors.
    [[nodiscard]] std::uint64_t trace_bytes() const { return trace_bytes_; }
    // The same for a gather that has not been run.
    [[nodiscard]] static std::uint64_t trace_bytes_for(Problem problem, std::uint32_t k);
    // Largest sum of value tables alive at once during a gather on one thread (0 on several): tables are
    // freed as soon as the parent has taken them in.
    [[nodiscard]] std::uint64_t peak_table_bytes() const { return peak_table_bytes_; }

    [[nodiscard]] const Problem& problem() const;

    Soar(Soar&&) noexcept;
    Soar& operator=(Soar&&) noexcept;
    ~Soar();

 private:
    struct Trace;
    class Gatherer;

    explicit Soar(std::unique_ptr<Trace> trace);

    std::unique_ptr<Trace> trace_;
    std::vector<double> curve_;
    std::uint64_t trace_bytes_ = 0;
    std::uint64_t peak_table_bytes_ = 0;
};

}  // namespace ask::placement
