// SPDX-License-Identifier: Apache-2.0
//
// Limits that commands, agents and documents share.
#pragma once

#include <cstdint>

namespace ask {

// That a task may wait for: agents keep an entry and a secret for each.
inline constexpr std::uint32_t kMaxSenders = 4096;

}  // namespace ask
