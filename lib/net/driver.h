// SPDX-License-Identifier: Apache-2.0
//
// What ethtool tells of an interface: its driver, and the offloads that stand in the way of XDP.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ask {

struct DriverInfo {
    std::string name;                     // one word; empty: it does not say
    bool strips_tags = false;             // VLAN tags are taken off on the way in
    bool merges = false;                  // GRO is on
    std::uint32_t queues = 0;             // to send on; 0: it does not say
    std::uint32_t processors = 1;         // of the machine, in use
    std::uint32_t receive_ring = 0;       // packets that a queue has room for; 0: it does not say
    std::uint32_t receive_ring_most = 0;  // at most
};

[[nodiscard]] DriverInfo driver_info(const std::string& interface);

// Answers one of ethtool's commands as SIOCETHTOOL does, in place. False: there is no answer.
using AskDriver = std::function<bool(void* command)>;
// Of a driver that answers so.
[[nodiscard]] DriverInfo read_driver(const AskDriver& ask);

}  // namespace ask
