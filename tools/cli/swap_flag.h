// SPDX-License-Identifier: Apache-2.0
//
// ask-recv --swap.
#pragma once

#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/tuples/swap_policy.h"

namespace ask::cli {

// "off": nothing; "auto": adaptive; else any of packets=N, tuples=N and every=MS, separated by commas, each
// at most once.
[[nodiscard]] Result<std::optional<SwapSettings>> parse_swap(const std::string& text);

}  // namespace ask::cli
