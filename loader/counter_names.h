// SPDX-License-Identifier: Apache-2.0
//
// Names of the switch's counters, in the order of enum ask_counter.
#pragma once

#include <array>
#include <string_view>

#include "lib/abi/map_types.h"

namespace ask {

struct CounterName {
    std::string_view name;
    std::string_view kind;  // "traffic", "drop" or "never"
    std::string_view text;
};

inline constexpr std::array<CounterName, ASK_CNT_COUNT> kSwitchCounters = {{
#define ASK_COUNTER(name, class, text) {#name, #class, text},
#include "lib/abi/counters.def"
#undef ASK_COUNTER
}};

}  // namespace ask
