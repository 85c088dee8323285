// SPDX-License-Identifier: Apache-2.0
#include "agent/link_check.h"

#include <string>

#include "lib/abi/limits.h"

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

}  // namespace

Result<> check_link(const InterfaceInfo& interface, XdpMode mode, const DriverInfo& driver) {
    ASK_PASS(check_mtu(interface, mode));
    if (mode == XdpMode::kNative && interface.kind == "bond") {
        return Error(Errc::kUnsupported,
                     "interface " + interface.name +
                         " is a bond: natively its packets are its members', and no AF_XDP socket of its own "
                         "gets any: set xdp_mode to generic");
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

}  // namespace ask
