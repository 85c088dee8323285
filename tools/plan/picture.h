// SPDX-License-Identifier: Apache-2.0
//
// A plan as a picture: the tree with the aggregating switches filled and each link's messages beside it.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "tools/plan/report.h"

namespace ask::plan {

// For Graphviz.
[[nodiscard]] std::string picture_dot(const Report& report);

// A picture of its own, without any other tool. kLimit beyond kMaxDrawnSwitches: the text points to DOT.
inline constexpr std::size_t kMaxDrawnSwitches = 4096;
Result<std::string> picture_svg(const Report& report);

}  // namespace ask::plan
