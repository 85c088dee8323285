// SPDX-License-Identifier: Apache-2.0
//
// Where else one might put k aggregating switches: the strategies that SOAR is compared with (SOAR, sections
// 3 and 5.1) and a greedy one. None claims to be optimal.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/problem.h"

namespace ask::placement {

enum class Strategy : std::uint8_t {
    kAllRed,   // nobody aggregates
    kAllBlue,  // every available switch does, whatever k
    kTop,      // the k closest to the root; among equals the one with more load below
    kMax,      // the k with the largest load of their own; among equals the one with more children, then more
               // load below
    kLevel,    // the deepest level with at most k switches, all of them available; none if there is no such
               // level
    kGreedy,   // k times the one that saves most; stops early when nothing saves
    kSoar,     // the optimum
};

inline constexpr Strategy kStrategies[] = {Strategy::kAllRed, Strategy::kAllBlue, Strategy::kTop,
                                           Strategy::kMax,    Strategy::kLevel,   Strategy::kGreedy,
                                           Strategy::kSoar};

[[nodiscard]] std::string_view strategy_name(Strategy strategy);
// kUsage for a name that is none of them.
Result<Strategy> parse_strategy(std::string_view name);

// The blue switches, ascending. kSoar fails as Soar::gather does; the others cannot.
Result<std::vector<SwitchId>> place(Strategy strategy, const Problem& problem, std::uint32_t k);

}  // namespace ask::placement
