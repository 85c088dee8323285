// SPDX-License-Identifier: Apache-2.0
//
// An interface of the agent's that is a bond, natively. Its program runs on its members, and AF_XDP knows
// nothing of bonds: there are sockets on the members' queues, and packets leave by a member that the bond
// itself would take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/config.h"
#include "lib/base/result.h"
#include "lib/net/netlink.h"
#include "lib/xsk/host_program.h"
#include "lib/xsk/xsk_socket.h"

namespace ask {

struct BondLink {
    InterfaceInfo bond;
    std::size_t nth = 0;                             // of the agent's interfaces and programs
    std::map<std::string, std::uint32_t> members{};  // that have sockets: name and index
};

// Loads the program of a bond, puts it there, and opens sockets on its members, which go to `sockets`.
[[nodiscard]] Result<HostProgram> open_bond(const AgentConfig& config, std::uint32_t own_address,
                                            BondLink& link, std::vector<XskSocket>& sockets);

class Workers;

// Follows what the kernel says of the members of the agent's bonds. One thread's.
class BondKeeper {
 public:
    // All of them outlive it.
    static Result<BondKeeper> open(const AgentConfig& config, std::vector<BondLink>& bonds,
                                   std::vector<HostProgram>& programs, Workers& workers);

    // Opens sockets on members that have come, closes those of members that have gone, and has workers send
    // by the others.
    void follow();
    // For poll(2): follow() has something to do. -1: there is no bond.
    [[nodiscard]] int changes_fd() const { return watch_ ? watch_->fd() : -1; }

 private:
    struct State {
        std::map<std::string, std::uint32_t> members;
        std::vector<std::string> resting;  // that the bond does not send by
        bool operator==(const State&) const = default;
    };

    BondKeeper(const AgentConfig& config, std::vector<BondLink>& bonds, std::vector<HostProgram>& programs,
               Workers& workers)
        : config_(&config), bonds_(&bonds), programs_(&programs), workers_(&workers) {}

    Result<> look();
    Result<> look_at(BondLink& link, const std::vector<InterfaceInfo>& all);
    void take_in(BondLink& link, const InterfaceInfo& member, std::vector<XskSocket>& fresh);
    void tell_once(const std::string& text);

    const AgentConfig* config_;
    std::vector<BondLink>* bonds_;
    std::vector<HostProgram>* programs_;
    Workers* workers_;
    std::optional<LinkWatch> watch_;
    bool owed_ = false;  // a member could not be taken in: tried again
    std::set<std::string> told_;
    std::map<std::string, State> states_;  // that workers know of, by bond
};

}  // namespace ask
