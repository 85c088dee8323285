// SPDX-License-Identifier: Apache-2.0
//
// The SRAM that a pipeline of the paper's switch would have: what regions are granted against (design section
// 5).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/tuples/sram.h"
#include "lib/tuples/types.h"

namespace ask {

// Bytes a registered channel takes: dedupe state and PktState.
[[nodiscard]] std::uint64_t channel_bytes();

// One pipeline's budget. Counts what is in use; granting past it is the caller's decision.
class SramBudget {
 public:
    explicit SramBudget(std::uint64_t total_bytes) : total_(total_bytes) {}

    [[nodiscard]] std::uint64_t total() const { return total_; }
    [[nodiscard]] std::uint64_t used() const { return used_; }
    [[nodiscard]] std::uint64_t left() const { return total_ - std::min(total_, used_); }
    // Whether a region fits beside what is in use, with `heats` bytes more: in bytes, each AA in a stage, all
    // AAs in the stages. The error names the limit.
    [[nodiscard]] Result<> check(const Geometry& geometry, std::uint32_t aggregators,
                                 std::uint64_t heats = 0) const;
    // Whether so much fits, for what is named.
    [[nodiscard]] Result<> check_bytes(const std::string& what, std::uint64_t bytes) const;
    void take(std::uint64_t bytes) { used_ += bytes; }
    void give_back(std::uint64_t bytes) { used_ -= bytes; }

 private:
    std::uint64_t total_;
    std::uint64_t used_ = 0;
};

}  // namespace ask
