// SPDX-License-Identifier: Apache-2.0
//
// AF_XDP sockets on the queues of one interface, and the program that steers packets into them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "agent/config.h"
#include "lib/base/result.h"
#include "lib/net/netlink.h"
#include "lib/xsk/host_program.h"
#include "lib/xsk/xsk_socket.h"

namespace ask {

struct LinkSockets {
    InterfaceInfo interface;
    MacAddress mac{};       // that its packets leave with: of a bond's member, the bond's
    std::uint32_t mtu = 0;  // likewise
    // Queues from this one on only receive. To be asked for ahead of XDP (sending_queues).
    std::uint32_t sending = std::numeric_limits<std::uint32_t>::max();
    std::vector<XskSocket> sockets{};  // by queue
};

// Opens a socket on every queue that is in use and has none yet.
[[nodiscard]] Result<> open_sockets(const AgentConfig& config, LinkSockets& on);
// Gives the program those from the `first` on.
[[nodiscard]] Result<> steer(const LinkSockets& on, HostProgram& program, std::size_t first = 0);
// Opens sockets on the queues that the driver took into use for the program, once that is attached:
// virtio-net takes one more a processor, which ethtool does not tell of, and the device puts packets there.
[[nodiscard]] Result<> open_further_sockets(const AgentConfig& config, LinkSockets& on, HostProgram& program);
// Whether each worker has one to send on.
[[nodiscard]] Result<> check_workers(const AgentConfig& config, const LinkSockets& on);

}  // namespace ask
