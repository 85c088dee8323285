// SPDX-License-Identifier: Apache-2.0
//
// The switch program on one interface, by a pinned link, and what its maps say of the port.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/bpf/xdp.h"
#include "lib/net/netlink.h"
#include "loader/data_plane.h"
#include "loader/pin_dir.h"

namespace ask {

struct Port {
    std::string name;
    std::uint32_t ifindex = 0;  // 0: not there
    bpf::XdpMode mode = bpf::XdpMode::kNative;
    std::uint32_t mtu = 0;            // bytes
    std::uint32_t bridge_index = 0;   // of the bridge that it is a port of; 0: none
    std::string bridge{};             // its name
    bool up = false;                  // it has a link, and the bridge is up: routes lead through it
    bool bridge_filters = false;      // VLANs, and then those of frames without a tag (0: of none):
    std::uint16_t bridge_vlan = 0;    // the bridge's own
    std::uint16_t untagged = 0;       // the port's
    std::uint16_t vlan = 0;           // of a VLAN that the program sees on the port that carries it; 0: none
    std::uint32_t carrier_index = 0;  // that port
    std::string carrier{};            // its name
    std::vector<std::uint32_t> members{};  // of a bond whose packets the program sees on these
    std::string trouble{};                 // why the program is not attached, and what to do; empty: it is
};

// The program and where its pins are; both outlive what is done with them.
struct PortSeat {
    const PinDir& pins;
    const DataPlane& plane;
    bpf::XdpMode mode;
};

// What a port that is there would be, before anything is attached.
struct PortCandidate {
    InterfaceInfo interface;
    const InterfaceInfo* bridge = nullptr;
    bool linked = false;                          // a predecessor's program is on it
    std::vector<const InterfaceInfo*> members{};  // of a bond, natively
};

// Whether it can be attached. `all`: the namespace's interfaces, which outlive the candidate. An error names
// the port.
[[nodiscard]] Result<PortCandidate> examine_port(const PortSeat& seat, const InterfaceInfo& interface,
                                                 const std::vector<InterfaceInfo>& all);
// Of a bond that the program is on natively, or is to be: whether it can be, and packets are lost by no
// member.
[[nodiscard]] Result<> check_members(const InterfaceInfo& bond, const std::vector<InterfaceInfo>& all);
// Whether a predecessor's program is on it in another mode than is wanted now: an error.
[[nodiscard]] Result<> check_predecessor(const PortSeat& seat, const InterfaceInfo& interface);
// Of a port for which a switch has no room.
[[nodiscard]] Error one_too_many(const std::string& port);
[[nodiscard]] Result<Port> attach_port(const PortSeat& seat, const PortCandidate& candidate);
// Whether the program is to see its packets with a tag on another port, as nothing attaches natively to a
// VLAN.
[[nodiscard]] bool is_carried(const PortSeat& seat, const InterfaceInfo& interface);
// Enters such a VLAN, on a port that is attached. Repeating it changes nothing.
[[nodiscard]] Result<Port> attach_vlan(const PortSeat& seat, const PortCandidate& candidate,
                                       const Port& carrier);
// Enters a port that stays attached, if the kernel has taken it out of what packets are redirected to: it
// does so with an interface that leaves the namespace, and may be back before anybody has looked.
[[nodiscard]] Result<> keep_entered(const PortSeat& seat, const Port& port);
// What the port has to say of its bridge, if it is on one.
void stand_on(Port& port, const InterfaceInfo& interface, const InterfaceInfo* bridge);
// Writes what has changed of a port that stays attached: the bridge that it is on, and a bond's members.
[[nodiscard]] Result<> describe_port(const PortSeat& seat, const Port& port);
// Forgets bridges that none of `ports` is on.
[[nodiscard]] Result<> forget_bridges(const PortSeat& seat, const std::vector<Port>& ports);
// Forgets an interface that is no member of such a port any more.
[[nodiscard]] Result<> forget_member(const PortSeat& seat, std::uint32_t ifindex);
// Detaches it, and forgets it in the maps. One that is gone, or moved to another namespace, is fine.
[[nodiscard]] Result<> detach_port(const PortSeat& seat, const std::string& name, std::uint32_t ifindex);
// Forgets what a predecessor has attached and entered, except for `ports`.
[[nodiscard]] Result<> detach_others(const PortSeat& seat, const std::vector<Port>& ports);

}  // namespace ask
