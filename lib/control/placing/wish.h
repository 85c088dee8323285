// SPDX-License-Identifier: Apache-2.0
//
// What receivers ask the controller of placements for, once it is checked that it can be.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lib/placement/problem.h"
#include "proto/placement.pb.h"

namespace ask::placing {

struct Sender {
    std::uint32_t address = 0;  // number (lib/net/host_book.h)
    std::uint32_t sends = 1;
    bool operator==(const Sender&) const = default;
};

struct Wish {
    std::string task;
    std::uint64_t instance = 0;
    std::vector<Sender> senders;  // each address once
    placement::Objective objective = placement::Objective::kUtilisation;
    std::uint32_t k = 0;  // 0: the controller's choice
    std::set<std::string> excluded;
    std::uint32_t memory_mib = 0;  // at each switch; 0: not counted
    bool operator==(const Wish&) const = default;
};

// By which plan a task runs, as its receiver says.
struct Claim {
    Wish wish;
    std::uint64_t plan = 0;
    v1::Placement placement;
};

}  // namespace ask::placing
