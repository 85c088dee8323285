// SPDX-License-Identifier: Apache-2.0
//
// The switch's ports: interfaces that the program is attached to, as the configuration names them and the
// machine has them. They come and go while the daemon runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/control/switch/store.h"
#include "lib/net/netlink.h"
#include "loader/config.h"
#include "loader/port_attach.h"
#include "loader/port_names.h"

namespace ask {

// Any thread may ask; one of them makes the table follow the machine.
class PortTable {
 public:
    // Attaches the program to what the configuration names and is there, keeps links of a predecessor that
    // fit, and drops the others. What is not there yet is waited for. Of a switch that starts afresh, an
    // interface that is named in full and cannot be attached is an error, found before anything changes; of
    // one that is adopted it is a trouble of that port.
    static Result<std::unique_ptr<PortTable>> attach(const SwitchConfig& config, const PinDir& pins,
                                                     const DataPlane& plane);

    // Looks at all interfaces again, if any has changed, or one could not be attached. Whether ports or a
    // bridge's stations are others than before: the hosts behind them may be elsewhere.
    bool follow();
    // For poll(2): follow() has something to do.
    [[nodiscard]] int changes_fd() const { return watch_.fd(); }

    // All that the configuration names, in its order: those with a trouble too.
    [[nodiscard]] std::vector<Port> all() const;
    // By its own index, or a member's.
    [[nodiscard]] std::optional<Port> find(std::uint32_t ifindex) const;
    // The port behind which a host is, by its number (lib/net/host_book.h): by the routing table and, where
    // that leads to a bridge, by what the bridge has learned. kInput: behind none.
    [[nodiscard]] Result<Port> route_to(std::uint32_t address) const;
    // All ports that the route leads through, that one first. Next hops beyond other interfaces do not count.
    [[nodiscard]] Result<std::vector<Port>> ways_to(std::uint32_t address) const;
    // Those of ways_to(), and the MACs on the way there; whoever is there is asked if need be. Ports whose
    // neighbour does not answer are left out, unless none does.
    [[nodiscard]] Result<std::vector<FanPort>> fan_ports(std::uint32_t address) const;
    struct Now {
        std::uint32_t mtu = 0;  // bytes
        bool attached = false;  // still the interface it was, with the program on it
    };
    // One question to the kernel, about this port alone (or two, of a VLAN): a status of many ports asks it
    // for each. kUnknown: no such interface any more.
    [[nodiscard]] Result<Now> now(const Port& port, std::uint32_t program_id) const;

 private:
    PortTable(const SwitchConfig& config, PortSeat seat, LinkWatch watch)
        : names_(config.ports), seat_(seat), watch_(std::move(watch)) {}

    // How a look ended.
    struct Look {
        bool changed = false;
        bool owed = false;  // not all could be seen to
    };
    // `strict`: what is named in full and cannot be attached is an error.
    Result<Look> look(bool strict);
    // What becomes of an interface that is to be a port; `known`: what it was, if it was one; `room`: for one
    // more than are attached.
    Result<Port> settle(const InterfaceInfo& interface, const Port* known,
                        const std::vector<InterfaceInfo>& all, bool room) const;
    // The same of a VLAN, once `ports` has the one that carries it.
    Result<Port> settle_vlan(const InterfaceInfo& interface, const Port* known,
                             const std::vector<InterfaceInfo>& all, const std::vector<Port>& ports) const;
    // What becomes of all that are there, in their order.
    Result<std::vector<Port>> settle_all(const PortChoice& choice, const std::vector<Port>& before,
                                         const std::vector<InterfaceInfo>& all, bool strict) const;
    Result<Port> keep(const InterfaceInfo& interface, Port port, const std::vector<InterfaceInfo>& all) const;
    Result<std::vector<std::uint32_t>> take_members(const InterfaceInfo& interface, const Port& port,
                                                    const std::vector<InterfaceInfo>& all) const;
    void drop_gone(const std::vector<Port>& before, const PortChoice& choice, Look& look) const;
    [[nodiscard]] bool is_any(bool (*is)(const Port&)) const;
    [[nodiscard]] std::vector<Port> attached() const;

    const std::vector<std::string> names_;
    const PortSeat seat_;
    LinkWatch watch_;
    bool owed_ = false;                             // follow()'s
    std::chrono::steady_clock::time_point rest_{};  // likewise: until then it looks for a reason alone
    mutable std::mutex mutex_;
    std::vector<Port> ports_;  // under it; written by follow() alone
};

}  // namespace ask
