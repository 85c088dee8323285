// SPDX-License-Identifier: Apache-2.0
#include "loader/port_check.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lib/abi/consts.h"
#include "lib/abi/limits.h"
#include "lib/net/bond.h"

namespace ask {
namespace {

// Drivers whose native XDP has no way out for packets of other interfaces: redirected ones count as
// forwarded, and are lost.
constexpr std::array<std::string_view, 4> kNoRedirect{"ixgbevf", "mlx4_en", "nfp", "thunder-nicvf"};
// Drivers that send what is redirected by a queue of the processor's own, and drop it where there is none.
constexpr std::array<std::string_view, 3> kQueueEach{"i40e", "ice", "mlx5_core"};

Error refused(const InterfaceInfo& interface, const std::string& why, const std::string& what_to_do) {
    return {Errc::kUnsupported, "port " + interface.name + " " + why + ": " + what_to_do};
}

Result<> check_mtu(const InterfaceInfo& interface) {
    if (interface.mtu <= ASK_MAX_MTU) {
        return {};
    }
    return refused(interface,
                   "has MTU " + std::to_string(interface.mtu) + ", native XDP takes up to " +
                       std::to_string(ASK_MAX_MTU),
                   "ip link set dev " + interface.name + " mtu " + std::to_string(ASK_MAX_MTU) +
                       ", or set xdp_mode to generic");
}

// XDP does not see a tag that the card took off: a packet would be another port's, and its ACK leave without.
// `by`: the interface itself, or a member of a bond.
Result<> check_tags(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all,
                    const InterfaceInfo& by, const DriverInfo& driver) {
    const auto vlan = std::ranges::find_if(all, [&interface](const InterfaceInfo& one) {
        return one.kind == "vlan" && one.lower == interface.index;
    });
    if (!driver.strips_tags || vlan == all.end()) {
        return {};
    }
    return refused(interface,
                   "carries VLAN " + vlan->name +
                       (by.index == interface.index ? " and" : ", and its member " + by.name) +
                       " takes tags off before XDP sees them",
                   "ethtool -K " + by.name + " rxvlan off, or have " + vlan->name +
                       " as the port, with xdp_mode generic");
}

Result<> check_redirect(const InterfaceInfo& interface, const DriverInfo& driver) {
    const auto is_in = [&driver](const auto& names) {
        return std::ranges::find(names, driver.name) != names.end();
    };
    if (is_in(kNoRedirect)) {
        return refused(
            interface,
            "has driver " + driver.name + ", which sends nothing that another port redirects to it",
            "set xdp_mode to generic");
    }
    if (is_in(kQueueEach) && driver.queues != 0 && driver.queues < driver.processors) {
        return refused(interface,
                       "has " + std::to_string(driver.queues) + " queues, and driver " + driver.name +
                           " drops what the other of " + std::to_string(driver.processors) +
                           " processors redirect to it",
                       "ethtool -L " + interface.name + " combined " + std::to_string(driver.processors) +
                           ", or set xdp_mode to generic");
    }
    return {};
}

std::string vlan_of(const InterfaceInfo& interface, const std::string& carrier) {
    return "is VLAN " + std::to_string(interface.vlan) + " of " + carrier;
}

}  // namespace

const InterfaceInfo* find_interface(const std::vector<InterfaceInfo>& all, std::uint32_t index) {
    const auto found = std::ranges::find(all, index, &InterfaceInfo::index);
    return index == 0 || found == all.end() ? nullptr : &*found;
}

const InterfaceInfo* bridge_of(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all) {
    const InterfaceInfo* const master = find_interface(all, interface.master);
    return master != nullptr && master->kind == "bridge" ? master : nullptr;
}

Result<> check_place(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all) {
    const InterfaceInfo* const master = find_interface(all, interface.master);
    if (master == nullptr) {
        return {};
    }
    if (master->kind == "bond" || master->kind == "team") {
        return refused(interface, "is a member of " + master->name,
                       "routes lead through that: take the member out of ports, and name " + master->name +
                           (master->kind == "team" ? " with xdp_mode generic" : " instead"));
    }
    if (master->kind == "bridge" && master->filters_vlans && master->service_tags) {
        return refused(
            interface, "is on bridge " + master->name + ", which filters VLANs by tags of 802.1ad",
            "ip link set dev " + master->name + " type bridge vlan_protocol 802.1Q, or leave the port out");
    }
    if (master->kind == "openvswitch") {
        return refused(interface, "is a port of Open vSwitch",
                       "the kernel's tables do not say where its stations are: leave it out");
    }
    return {};
}

Result<> check_port(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all, bpf::XdpMode mode,
                    const DriverInfo& driver) {
    if (interface.kind == "bridge") {
        return refused(
            interface, "is a bridge",
            "name its ports instead, by a pattern perhaps: packets between them do not come by it");
    }
    ASK_PASS(check_place(interface, all));
    if (mode == bpf::XdpMode::kGeneric) {
        return {};
    }
    ASK_PASS(check_mtu(interface));
    if (interface.kind == "bond") {
        return check_bond(interface, all);
    }
    ASK_PASS(check_tags(interface, all, interface, driver));
    return check_redirect(interface, driver);
}

Result<> check_bond(const InterfaceInfo& bond, const std::vector<InterfaceInfo>& all) {
    if (bond.kind != "bond") {
        return {};
    }
    if (const std::string trouble = native_trouble(bond); !trouble.empty()) {
        return Error(Errc::kUnsupported, "port " + bond.name + " " + trouble);
    }
    const std::size_t members = members_of(bond, all).size();
    if (members < ASK_CHANNEL_PORTS) {
        return {};
    }
    return refused(bond,
                   "is a bond of " + std::to_string(members) + " members, and natively one may have " +
                       std::to_string(ASK_CHANNEL_PORTS - 1),
                   "take members out of it, or set xdp_mode to generic");
}

Result<> check_member(const InterfaceInfo& bond, const InterfaceInfo& member,
                      const std::vector<InterfaceInfo>& all, const DriverInfo& driver) {
    if (member.xdp_program != 0) {
        return refused(bond,
                       "is a bond whose member " + member.name + " has XDP program " +
                           std::to_string(member.xdp_program) + " of its own",
                       "remove it (ip link set dev " + member.name + " xdp off, or its own tool)");
    }
    ASK_PASS(check_tags(bond, all, member, driver));
    ASK_TRY(check_redirect(member, driver), "bond " + bond.name);
    return {};
}

Result<> check_vlan(const InterfaceInfo& interface, const std::vector<InterfaceInfo>& all,
                    const std::string& carrier, const DriverInfo& driver) {
    if (interface.lower_elsewhere) {
        return refused(interface, vlan_of(interface, "an interface in another network namespace"),
                       "make the VLAN where ask-switchd runs, or set xdp_mode to generic");
    }
    if (interface.service_tags) {
        return refused(interface, "has tags of 802.1ad, and the switch reads those of 802.1Q alone",
                       "set xdp_mode to generic");
    }
    const InterfaceInfo* const lower = find_interface(all, interface.lower);
    const std::string below = lower == nullptr ? "an interface that is gone" : lower->name;
    if (lower != nullptr && lower->kind == "vlan") {
        return refused(interface, vlan_of(interface, below) + ", a VLAN itself, and the switch reads one tag",
                       "set xdp_mode to generic");
    }
    if (lower != nullptr && lower->kind == "bond") {
        return refused(interface,
                       vlan_of(interface, below) + ", a bond, whose members no tag is looked for on",
                       "set xdp_mode to generic");
    }
    if (carrier.empty()) {
        return refused(
            interface, vlan_of(interface, below) + ", which is no port or not attached",
            "add " + below + " to ports, see what askctl status says of it, or set xdp_mode to generic");
    }
    if (driver.strips_tags) {
        return refused(interface, vlan_of(interface, below) + ", which takes tags off before XDP sees them",
                       "ethtool -K " + below + " rxvlan off, or set xdp_mode to generic");
    }
    return check_place(interface, all);
}

}  // namespace ask
