// SPDX-License-Identifier: Apache-2.0
//
// Lengths of time, as people write them.
#pragma once

#include <chrono>
#include <string_view>

#include "lib/base/result.h"

namespace ask::cli {

// "60s", "5m", "1h", "1d": whole numbers from 1 s to a day. kUsage: none of these.
Result<std::chrono::seconds> parse_every(std::string_view text);

}  // namespace ask::cli
