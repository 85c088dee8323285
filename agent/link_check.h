// SPDX-License-Identifier: Apache-2.0
//
// What the agent's interface would lose packets by, without a word.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "lib/base/result.h"
#include "lib/net/driver.h"
#include "lib/net/netlink.h"
#include "lib/xsk/host_program.h"

namespace ask {

// An error says what it is, and what to do.
[[nodiscard]] Result<> check_link(const InterfaceInfo& interface, XdpMode mode, const DriverInfo& driver);

// Whether any of the agent's interfaces is left. Sockets on one that is gone hear nothing any more, whatever
// has its name by then. `told`: those that the log has said so of.
[[nodiscard]] Result<> check_left(std::span<const InterfaceInfo> interfaces, std::set<std::uint32_t>& told);

}  // namespace ask
