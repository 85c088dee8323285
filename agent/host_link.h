// SPDX-License-Identifier: Apache-2.0
//
// The agent's interfaces: on each a steering program and AF_XDP sockets on all its queues, and how packets
// find their way to other hosts.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/bond_link.h"
#include "agent/config.h"
#include "lib/control/member/network_port.h"
#include "lib/net/frame.h"
#include "lib/net/netlink.h"
#include "lib/xsk/host_program.h"
#include "lib/xsk/xsk_socket.h"

namespace ask {

struct HostLink {
    std::uint32_t address = 0;              // number (lib/net/host_book.h)
    std::string bind_mode;                  // obtained, on all
    std::vector<InterfaceInfo> interfaces;  // the first is `interface`
    std::vector<HostProgram> programs;      // one per interface
    std::vector<XskSocket> sockets;         // one per queue of each, until the workers take them
    std::vector<BondLink> bonds;            // those of `interfaces` that are, natively

    // Checks what is needed, opens a socket per queue and starts steering. Errors name what is missing.
    static Result<HostLink> open(const AgentConfig& config);
    // What fits through each of them.
    [[nodiscard]] std::uint32_t mtu() const;
};

// Finds the way to `dest` from `address`: by the route, as far as it leads through one of `interfaces` that
// is not down, then the next hop's Ethernet address, which is asked for until `deadline`.
Result<Path> find_path(std::span<const InterfaceInfo> interfaces, std::uint32_t address, std::uint32_t dest,
                       Clock::time_point deadline);

// Whether an address is one of this host's own.
[[nodiscard]] bool is_own_address(std::uint32_t address);

// What other hosts are called: the table [hosts], which may change while the agent runs. Thread-safe.
class HostNames {
 public:
    explicit HostNames(std::map<std::string, std::string> hosts) : hosts_(std::move(hosts)) {}
    void set(std::map<std::string, std::string> hosts);
    // `name` is one of the table's, an address, or what the resolver knows, of `family` (AF_INET, AF_INET6)
    // if it can be; each of them may have a port behind it. `user`: who says it; of the table's hosts he may
    // name all. kUnknown, kUsage, kInput; as introduce() (lib/rpc/hosts6.h).
    [[nodiscard]] Result<HostAddress> resolve(const std::string& name, int family, std::uint32_t user) const;

 private:
    [[nodiscard]] std::optional<std::string> find(const std::string& name) const;

    mutable std::mutex mutex_;
    std::map<std::string, std::string> hosts_;
};

}  // namespace ask
