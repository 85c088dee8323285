// SPDX-License-Identifier: Apache-2.0
//
// A relay's sessions, as an application of this host's agent has them.
#pragma once

#include <string>

#include "lib/control/relay/relay_ports.h"

namespace ask {

// `agent`: its socket; empty: as applications find it.
[[nodiscard]] MakeRelaySessions relay_sessions(std::string agent);

}  // namespace ask
