// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ask {

// Where an agent listens for other agents, unless it is told otherwise.
inline constexpr std::uint16_t kControlPort = 4791;
// And a relay.
inline constexpr std::uint16_t kRelayPort = 4793;

}  // namespace ask
