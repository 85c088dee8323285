// SPDX-License-Identifier: Apache-2.0
//
// Which operations there are, and which way one went: through a group, or to MPI and why. The report counts
// them.
#pragma once

#include <array>
#include <cstddef>

namespace ask::pmpi {

enum class Kind : unsigned { kAllreduce, kReduce, kBcast, kBarrier };
constexpr std::array kKindNames = {"allreduce", "reduce", "bcast", "barrier"};
constexpr std::size_t kKinds = kKindNames.size();

enum class Way : unsigned {
    kThrough,
    kNotChosen,
    kBelowThreshold,
    kTooLarge,
    kType,
    kOperator,
    kOneRank,
    kIntercommunicator,
    kBeyondWorld,
    kNotEnabled,
    kArgument,
    kInactive
};
// As the report has them.
constexpr std::array kWayNames = {"through",      "not_chosen",  "below_threshold", "too_large",
                                  "type",         "operator",    "one_rank",        "intercommunicator",
                                  "beyond_world", "not_enabled", "argument",        "inactive"};
constexpr std::size_t kWays = kWayNames.size();

}  // namespace ask::pmpi
