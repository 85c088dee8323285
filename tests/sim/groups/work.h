// SPDX-License-Identifier: Apache-2.0
//
// An operation of a group: what each member gives, and what must come of it, by plain sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/values/operation.h"
#include "tests/sim/frame/random.h"
#include "tests/sim/groups/plan.h"

namespace ask::sim::groups {

struct Work {
    values::Operation operation;              // but for memory
    std::vector<std::vector<std::byte>> in;   // by rank
    std::vector<std::vector<std::byte>> out;  // by rank; what is not written stays as it is
    std::vector<std::byte> expected;
    std::vector<bool> in_place;  // by rank

    // As this member submits it.
    [[nodiscard]] values::Operation of(std::uint32_t rank);
    // What is wrong with what this member was given, or "".
    [[nodiscard]] std::string judge(std::uint32_t rank) const;
};

[[nodiscard]] Work draw_work(const Plan& plan, std::uint64_t number, Random& random);

}  // namespace ask::sim::groups
