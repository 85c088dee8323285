// SPDX-License-Identifier: Apache-2.0
//
// The agent's interface: steering program and AF_XDP sockets on all its queues, and how packets find their
// way to other hosts.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/config.h"
#include "lib/control/member/network_port.h"
#include "lib/net/frame.h"
#include "lib/net/netlink.h"
#include "lib/xsk/host_program.h"
#include "lib/xsk/xsk_socket.h"

namespace ask {

struct HostLink {
    InterfaceInfo interface;
    std::uint32_t address = 0;
    std::string bind_mode;  // obtained
    HostProgram program;
    std::vector<XskSocket> sockets;  // one per queue, until the workers take them

    // Checks what is needed, opens a socket per queue and starts steering. Errors name what is missing.
    static Result<HostLink> open(const AgentConfig& config);
};

// Finds the way to `dest` from `address` on `interface`: route, then the next hop's Ethernet address, which
// is asked for until `deadline`.
Result<Path> find_path(const InterfaceInfo& interface, std::uint32_t address, std::uint32_t dest,
                       Clock::time_point deadline);

// Whether an address is one of this host's own.
[[nodiscard]] bool is_own_address(std::uint32_t address);

// What other hosts are called: the table [hosts], which may change while the agent runs. Thread-safe.
class HostNames {
 public:
    explicit HostNames(std::map<std::string, std::string> hosts) : hosts_(std::move(hosts)) {}
    void set(std::map<std::string, std::string> hosts);
    // `name` is one of the table's, an IPv4 address, or what the resolver knows; each of them may have a port
    // behind it. kUnknown, kUsage.
    [[nodiscard]] Result<HostAddress> resolve(const std::string& name) const;

 private:
    [[nodiscard]] std::optional<std::string> find(const std::string& name) const;

    mutable std::mutex mutex_;
    std::map<std::string, std::string> hosts_;
};

}  // namespace ask
