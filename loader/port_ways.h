// SPDX-License-Identifier: Apache-2.0
//
// Behind which port a host is: by the routing table and, where that leads to a bridge, by what the bridge has
// learned of its stations.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "lib/control/switch/store.h"
#include "loader/port_attach.h"

namespace ask {

// PortTable has what each is for; `ports`: those that are attached.
[[nodiscard]] Result<Port> port_to(const std::vector<Port>& ports, std::uint32_t address);
[[nodiscard]] Result<std::vector<Port>> ports_to(const std::vector<Port>& ports, std::uint32_t address);
[[nodiscard]] Result<std::vector<FanPort>> fan_ports_to(const std::vector<Port>& ports,
                                                        std::uint32_t address);

}  // namespace ask
