// SPDX-License-Identifier: Apache-2.0
//
// What an interface would lose packets by, without a word, if it were a port.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/bpf/xdp.h"
#include "lib/net/driver.h"
#include "lib/net/netlink.h"

namespace ask {

// Errors say what it is, and what to do. `all`: of the namespace, `interface` among them.
[[nodiscard]] Result<> check_port(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all,
                                  bpf::XdpMode mode, const DriverInfo& driver);

// Whether the kernel puts a native program on the bond's members, and a channel's set of ports has room for
// them. Of what is no bond: yes.
[[nodiscard]] Result<> check_bond(const InterfaceInfo& bond, const std::vector<InterfaceInfo>& all);

// And whether packets would be lost by one of the members, whose driver that is.
[[nodiscard]] Result<> check_member(const InterfaceInfo& bond, const InterfaceInfo& member,
                                    const std::vector<InterfaceInfo>& all, const DriverInfo& driver);

// The part of it that may change under a port that is attached: what the interface is a port or member of.
[[nodiscard]] Result<> check_place(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all);

// The same of a VLAN, whose packets the program sees on the port that carries it. `carrier`: that port's
// name; empty: it is none of the switch's. `driver`: of the carrier.
[[nodiscard]] Result<> check_vlan(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all,
                                  const std::string& carrier, const DriverInfo& driver);

// The interface of that index, or none.
[[nodiscard]] const InterfaceInfo* find_interface(const std::vector<InterfaceInfo>& all, std::uint32_t index);
// The bridge that it is a port of, or none.
[[nodiscard]] const InterfaceInfo* bridge_of(const InterfaceInfo& interface,
                                             const std::vector<InterfaceInfo>& all);

}  // namespace ask
