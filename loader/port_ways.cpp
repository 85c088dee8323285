// SPDX-License-Identifier: Apache-2.0
#include "loader/port_ways.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "lib/control/switch/host_address.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/net/netlink.h"
#include "loader/port_check.h"

namespace ask {
namespace {

// For a neighbour that has to be asked who it is.
constexpr std::chrono::milliseconds kPatience{300};

std::string joined_names(const std::vector<Port>& ports) {
    std::string names;
    for (const Port& port : ports) {
        names += (names.empty() ? "" : ", ") + port.name;
    }
    return names.empty() ? "none is attached" : names;
}

const Port* find_port(const std::vector<Port>& ports, std::uint32_t ifindex) {
    const auto it = std::ranges::find(ports, ifindex, &Port::ifindex);
    return it == ports.end() ? nullptr : &*it;
}

// A bridge that a route leads to; and the VLAN of it, if it filters them.
struct BridgeWay {
    std::uint32_t index = 0;
    std::string name;
    bool filters = false;
    std::uint16_t vlan = 0;

    [[nodiscard]] std::string text() const {
        return "bridge " + name + (filters ? ", VLAN " + std::to_string(vlan) : "");
    }
};

// Whether the port's packets have no tag, neither in nor out: the switch answers as they came.
Result<const Port*> check_untagged(const BridgeWay& bridge, const Port& port) {
    if (!bridge.filters || port.untagged == bridge.vlan) {
        return &port;
    }
    return Error(Errc::kInput, bridge.text() + ", has it by port " + port.name +
                                   " with a tag, and the switch answers frames without one: bridge vlan "
                                   "add dev " +
                                   port.name + " vid " + std::to_string(bridge.vlan) + " pvid untagged");
}

// A bridge forwards by its own database, which says by which port the next hop is.
Result<const Port*> port_on_bridge(Netlink& netlink, const std::vector<Port>& ports, const Route& way,
                                   const BridgeWay& bridge) {
    if (bridge.filters && bridge.vlan == 0) {
        return Error(Errc::kInput, "bridge " + bridge.name +
                                       " takes no frames without a tag itself: bridge vlan add dev " +
                                       bridge.name + " vid VLAN self pvid untagged");
    }
    const auto mac = netlink.resolve(way, Netlink::Clock::now() + kPatience);
    ASK_TRY(mac, bridge.text());
    const auto places = netlink.bridge_ports(bridge.index, *mac, bridge.vlan);
    ASK_TRY(places, bridge.text());
    for (const std::uint32_t ifindex : *places) {
        if (const Port* const port = find_port(ports, ifindex); port != nullptr) {
            return check_untagged(bridge, *port);
        }
    }
    return Error(Errc::kInput, bridge.text() + ", has station " + format_mac(*mac) + ", " +
                                   format_next_hop(way) + ", " +
                                   (places->empty() ? "nowhere: it is silent"
                                                    : "by a port that is not one of the switch's: add it to "
                                                      "ports"));
}

// The bridge by that index that one of the ports is on.
const Port* find_on_bridge(const std::vector<Port>& ports, std::uint32_t bridge) {
    const auto it = std::ranges::find_if(
        ports, [bridge](const Port& port) { return bridge != 0 && port.bridge_index == bridge; });
    return it == ports.end() ? nullptr : &*it;
}

// The bridge that an interface is a VLAN of, if it filters them.
Result<std::optional<BridgeWay>> bridge_below(Netlink& netlink, const std::vector<Port>& ports,
                                              std::uint32_t ifindex) {
    if (!std::ranges::any_of(ports, &Port::bridge_filters)) {
        return std::optional<BridgeWay>();
    }
    const auto all = netlink.interfaces();
    ASK_PASS(all);
    const InterfaceInfo* const vlan = find_interface(*all, ifindex);
    if (vlan == nullptr || vlan->kind != "vlan" || vlan->lower_elsewhere || vlan->service_tags) {
        return std::optional<BridgeWay>();
    }
    const Port* const port = find_on_bridge(ports, vlan->lower);
    if (port == nullptr || !port->bridge_filters) {
        return std::optional<BridgeWay>();
    }
    return std::optional(
        BridgeWay{.index = port->bridge_index, .name = port->bridge, .filters = true, .vlan = vlan->vlan});
}

// The port that packets come in by which come the way back. Null: none of the switch's.
Result<const Port*> port_of_way(Netlink& netlink, const std::vector<Port>& ports, const Route& way) {
    if (const Port* const port = find_port(ports, way.interface_index); port != nullptr) {
        return port;
    }
    if (const Port* const port = find_on_bridge(ports, way.interface_index); port != nullptr) {
        return port_on_bridge(netlink, ports, way,
                              {.index = port->bridge_index,
                               .name = port->bridge,
                               .filters = port->bridge_filters,
                               .vlan = port->bridge_vlan});
    }
    const auto below = bridge_below(netlink, ports, way.interface_index);
    ASK_PASS(below);
    return *below ? port_on_bridge(netlink, ports, way, **below) : Result<const Port*>(nullptr);
}

// Towards a neighbour behind that port.
Result<FanPort> fan_port(Netlink& netlink, const Port& port, const Route& way,
                         Netlink::Clock::time_point until) {
    if (port.bridge_index != 0) {
        return Error(Errc::kUnsupported, "port " + port.name + " is on bridge " + port.bridge +
                                             ", and a switch makes no copies past a bridge");
    }
    if (port.vlan != 0) {
        return Error(Errc::kUnsupported, "port " + port.name + " is a VLAN of port " + port.carrier +
                                             ", and a switch makes no copies to VLANs");
    }
    const auto interface = netlink.interface(port.name);
    ASK_PASS(interface);
    const auto mac = netlink.resolve(way, until);
    ASK_PASS(mac);
    FanPort found{.port = {.name = port.name, .ifindex = port.ifindex, .mtu = port.mtu}};
    std::ranges::copy(*mac, found.member.mac);
    std::ranges::copy(interface->mac, found.member.port_mac);
    return found;
}

}  // namespace

Result<Port> port_to(const std::vector<Port>& ports, std::uint32_t address) {
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto route = netlink->route(address);
    if (!route.ok()) {
        return Error(Errc::kInput, "address " + format_host(address) + ": " + route.error().text());
    }
    const auto port = route->local ? Result<const Port*>(nullptr) : port_of_way(*netlink, ports, *route);
    ASK_TRY(port, "address " + format_host(address));
    if (*port == nullptr) {
        return Error(Errc::kInput, "address " + format_host(address) +
                                       " is not behind one of the switch's ports (" + joined_names(ports) +
                                       "): check its route there");
    }
    return **port;
}

Result<std::vector<Port>> ports_to(const std::vector<Port>& ports, std::uint32_t address) {
    const auto usual = port_to(ports, address);
    ASK_PASS(usual);
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto ways = netlink->ways(address);
    ASK_TRY(ways, "address " + format_host(address));
    std::vector<Port> found{*usual};
    for (const Route& way : *ways) {
        const auto port = port_of_way(*netlink, ports, way);
        if (port.ok() && *port != nullptr &&
            std::ranges::find(found, (*port)->ifindex, &Port::ifindex) == found.end()) {
            found.push_back(**port);
        }
    }
    return found;
}

Result<std::vector<FanPort>> fan_ports_to(const std::vector<Port>& ports, std::uint32_t address) {
    const auto usual = port_to(ports, address);
    ASK_PASS(usual);
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto ways = netlink->ways(address);
    ASK_TRY(ways, "member " + format_host(address));
    // One patience for all: a neighbour that is gone must not cost the others theirs.
    const auto until = Netlink::Clock::now() + kPatience;
    std::vector<FanPort> found;
    std::optional<Error> trouble;
    for (const Route& way : *ways) {
        const auto port = port_of_way(*netlink, ports, way);
        if (!port.ok() || *port == nullptr) {
            continue;
        }
        auto fan = fan_port(*netlink, **port, way, until);
        if (!fan.ok()) {
            trouble = std::move(fan).error().with_context("member " + format_host(address));
            continue;
        }
        set_address(fan->member, address);
        found.insert((*port)->ifindex == usual->ifindex ? found.begin() : found.end(), *std::move(fan));
    }
    if (found.empty()) {
        return trouble ? *std::move(trouble)
                       : Error(Errc::kInput, "member " + format_host(address) + " is behind no port");
    }
    return found;
}

}  // namespace ask
