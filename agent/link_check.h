// SPDX-License-Identifier: Apache-2.0
//
// What the agent's interface would lose packets by, without a word.
#pragma once

#include "lib/base/result.h"
#include "lib/net/driver.h"
#include "lib/net/netlink.h"
#include "lib/xsk/host_program.h"

namespace ask {

// An error says what it is, and what to do.
[[nodiscard]] Result<> check_link(const InterfaceInfo& interface, XdpMode mode, const DriverInfo& driver);

}  // namespace ask
