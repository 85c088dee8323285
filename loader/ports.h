// SPDX-License-Identifier: Apache-2.0
//
// The switch's ports: interfaces that the program is attached to by a pinned link.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/bpf/xdp.h"
#include "lib/control/switch/store.h"
#include "loader/config.h"
#include "loader/data_plane.h"
#include "loader/pin_dir.h"

namespace ask {

// Longest MTU that native XDP takes without fragments (veth; limits of other drivers are close).
inline constexpr std::uint32_t kMaxNativeMtu = 3506;

struct Port {
    std::string name;
    std::uint32_t ifindex = 0;
    bpf::XdpMode mode = bpf::XdpMode::kNative;
    std::uint32_t mtu = 0;  // bytes, when it was attached or adopted
};

class PortTable {
 public:
    // Attaches the program to every configured interface that has no link yet, keeps the links that fit,
    // detaches ports that are no longer configured, and fills the map `ports`. An interface that is missing
    // or too large an MTU is found before anything changes.
    static Result<PortTable> attach(const SwitchConfig& config, const PinDir& pins, const DataPlane& plane);

    [[nodiscard]] const std::vector<Port>& all() const { return ports_; }
    [[nodiscard]] const Port* find(std::uint32_t ifindex) const;
    // The port behind which an IPv4 address (host byte order) is, by the routing table. kInput: behind none.
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
    // One question to the kernel, about this port alone: a status of many ports asks it for each.
    // kUnknown: no such interface any more.
    [[nodiscard]] Result<Now> now(const Port& port, std::uint32_t program_id) const;

 private:
    std::vector<Port> ports_;
};

}  // namespace ask
