// SPDX-License-Identifier: Apache-2.0
//
// The version that every program prints.
#pragma once

#include <string_view>

namespace ask {

inline constexpr std::string_view kVersion = ASK_VERSION;

}  // namespace ask
