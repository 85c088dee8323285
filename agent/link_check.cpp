// SPDX-License-Identifier: Apache-2.0
#include "agent/link_check.h"

#include <string>

namespace ask {

Result<> check_link(const InterfaceInfo& interface, XdpMode mode, const DriverInfo& driver) {
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
