// SPDX-License-Identifier: Apache-2.0
#include "agent/link_check.h"

#include <string>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/abi/limits.h"
#include "lib/net/bond.h"

namespace ask {
namespace {

constexpr std::uint32_t kSmallestMtu = 576;

Result<> check_mtu(const InterfaceInfo& interface, XdpMode mode) {
    const bool too_large = mode == XdpMode::kNative && interface.mtu > ASK_MAX_MTU;
    if (interface.mtu >= kSmallestMtu && !too_large) {
        return {};
    }
    const std::string wanted = std::to_string(too_large ? ASK_MAX_MTU : kSmallestMtu);
    return Error(Errc::kUnsupported, "interface " + interface.name + " has MTU " +
                                         std::to_string(interface.mtu) +
                                         (too_large ? ", native XDP takes up to " : ", ASK takes from ") +
                                         wanted + ": ip link set dev " + interface.name + " mtu " + wanted);
}

// Natively frames are written here, from the address that the bond had.
Result<> check_address(const InterfaceInfo& bond) {
    if (!bond.bond_changes_mac) {
        return {};
    }
    return Error(Errc::kUnsupported,
                 "interface " + bond.name +
                     " is a bond whose Ethernet address changes with its active member: ip "
                     "link set dev " +
                     bond.name + " type bond fail_over_mac none, or set xdp_mode to generic");
}

}  // namespace

Result<> check_link(const InterfaceInfo& interface, XdpMode mode, const DriverInfo& driver) {
    ASK_PASS(check_mtu(interface, mode));
    if (mode == XdpMode::kNative && interface.kind == "bond") {
        const std::string trouble = native_trouble(interface);
        return trouble.empty()
                   ? check_address(interface)
                   : Result<>(Error(Errc::kUnsupported, "interface " + interface.name + " " + trouble));
    }
    // A switch that is native at the other end hands packets to a veth that has no room for them.
    if (mode == XdpMode::kGeneric && interface.kind == "veth" && !driver.merges) {
        return Error(Errc::kUnsupported,
                     "interface " + interface.name +
                         " is a veth without GRO, where packets that a native switch sends back are lost in "
                         "generic mode: ethtool -K " +
                         interface.name + " gro on, or set xdp_mode to native");
    }
    return {};
}

Result<> check_left(std::span<const InterfaceInfo> interfaces, std::set<std::uint32_t>& told) {
    std::vector<const InterfaceInfo*> gone;
    std::string names;
    for (const InterfaceInfo& interface : interfaces) {
        if (!has_interface(interface.index)) {
            names += (gone.empty() ? "" : " and ") + interface.name;
            gone.insert(gone.end(), &interface);
        }
    }
    if (gone.size() == interfaces.size()) {
        return Error(Errc::kUnknown, "interface " + names +
                                         " is gone, and the agent's sockets with it: start ask-agentd again "
                                         "once there is one of that name");
    }
    for (const InterfaceInfo* const one : gone) {
        if (told.insert(one->index).second) {
            spdlog::warn(
                "interface {} is gone, and the agent goes on without it: restart it once there is one "
                "of that name",
                one->name);
        }
    }
    return {};
}

}  // namespace ask
