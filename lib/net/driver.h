// SPDX-License-Identifier: Apache-2.0
//
// What ethtool tells of an interface: its driver, and the offloads that stand in the way of XDP.
#pragma once

#include <cstdint>
#include <string>

namespace ask {

struct DriverInfo {
    std::string name;              // empty: it does not say
    bool strips_tags = false;      // VLAN tags are taken off on the way in
    bool merges = false;           // GRO is on
    std::uint32_t queues = 0;      // to send on; 0: it does not say
    std::uint32_t processors = 1;  // of the machine, in use
};

[[nodiscard]] DriverInfo driver_info(const std::string& interface);

}  // namespace ask
