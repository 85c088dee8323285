// SPDX-License-Identifier: Apache-2.0
#include "loader/ports.h"

#include <arpa/inet.h>
#include <linux/if_link.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <bpf/libbpf.h>
#include <spdlog/spdlog.h>

#include "lib/bpf/object.h"
#include "lib/net/address.h"
#include "lib/net/netlink.h"
#include "loader/veth_peer.h"

namespace ask {
namespace {

std::string joined_names(const std::vector<Port>& ports) {
    std::string names;
    for (const Port& port : ports) {
        names += (names.empty() ? "" : ", ") + port.name;
    }
    return names;
}

Result<InterfaceInfo> find_interface(const std::string& name) {
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    auto info = netlink->interface(name);
    if (!info.ok() && info.error().code() == Errc::kUnknown) {
        return Error(Errc::kUnknown, "port " + name +
                                         ": no such interface in this network namespace: create it, or " +
                                         "take it out of ports");
    }
    return info;
}

Result<> check_mtu(const InterfaceInfo& interface, bpf::XdpMode mode) {
    if (mode == bpf::XdpMode::kNative && interface.mtu > kMaxNativeMtu) {
        return Error(Errc::kUnsupported, "port " + interface.name + " has MTU " +
                                             std::to_string(interface.mtu) + ", native XDP takes up to " +
                                             std::to_string(kMaxNativeMtu) + ": ip link set dev " +
                                             interface.name + " mtu " + std::to_string(kMaxNativeMtu) +
                                             ", or set xdp_mode to generic");
    }
    return {};
}

// The mode that a program is attached in now, as the kernel tells it.
Result<bpf::XdpMode> attached_mode(const InterfaceInfo& interface) {
    LIBBPF_OPTS(bpf_xdp_query_opts, options);
    if (const int error = bpf_xdp_query(static_cast<int>(interface.index), 0, &options); error != 0) {
        return Error::from_errno(-error, "query XDP on " + interface.name);
    }
    return options.attach_mode == XDP_ATTACHED_SKB ? bpf::XdpMode::kGeneric : bpf::XdpMode::kNative;
}

// Whether the pinned link holds our program to this very interface. An interface that was deleted, or deleted
// and made again under its name, leaves a link that holds nothing.
Result<bool> has_link(const PinDir& pins, const InterfaceInfo& interface, std::uint32_t program_id) {
    const auto fd = bpf::open_pinned(pins.link(interface.name));
    if (!fd.ok()) {
        return fd.error().code() == Errc::kUnknown ? Result<bool>(false) : Result<bool>(fd.error());
    }
    const auto info = bpf::link_info(fd->get());
    ASK_TRY(info, "link of " + interface.name);
    if (info->type == BPF_LINK_TYPE_XDP && info->xdp.ifindex == interface.index &&
        info->prog_id == program_id) {
        return true;
    }
    ASK_PASS(bpf::unpin(pins.link(interface.name)));
    return false;
}

// What a configured port is now.
struct Candidate {
    InterfaceInfo interface;
    bool linked = false;
};

// Whether the port can be attached, before anything is.
Result<Candidate> examine(const std::string& name, bpf::XdpMode mode, const PinDir& pins,
                          const DataPlane& plane) {
    auto interface = find_interface(name);
    ASK_PASS(interface);
    const auto linked = has_link(pins, *interface, plane.program_id());
    ASK_TRY(linked, "port " + name);
    if (!*linked) {
        ASK_PASS(check_mtu(*interface, mode));
        return Candidate{std::move(*interface), false};
    }
    const auto obtained = attached_mode(*interface);
    ASK_TRY(obtained, "port " + name);
    if (*obtained != mode) {
        return Error(Errc::kUnsupported,
                     "port " + name + " is attached in " + std::string(to_string(*obtained)) +
                         " mode, configured " + std::string(to_string(mode)) + ": set xdp_mode to " +
                         std::string(to_string(*obtained)) + ", or run ask-switchd --unload");
    }
    return Candidate{std::move(*interface), true};
}

Result<Port> attach_port(const Candidate& candidate, bpf::XdpMode mode, const PinDir& pins,
                         const DataPlane& plane) {
    const auto& [interface, linked] = candidate;
    if (!linked) {
        const auto link = bpf::attach_xdp(plane.program(), interface.index, interface.name, mode);
        ASK_PASS(link);
        ASK_PASS(bpf::pin(link->get(), pins.link(interface.name)));
    }
    ASK_TRY(plane.maps().ports.set(interface.index, plane.device(interface.index)), "port " + interface.name);
    spdlog::info("port {}: {} in {} mode, MTU {}", interface.name, linked ? "still attached" : "attached",
                 to_string(mode), interface.mtu);
    if (!peer_has_program(interface.index)) {
        spdlog::warn(
            "port {}: its veth peer has no XDP program that can be seen; ACKs sent back through the port are "
            "lost "
            "until there is one (ask-agentd attaches it)",
            interface.name);
    }
    return Port{interface.name, interface.index, mode, interface.mtu};
}

// Forgets ports that are no longer configured, and entries of interfaces that are gone.
Result<> detach_others(const SwitchConfig& config, const std::vector<Port>& ports, const PinDir& pins,
                       const SwitchMaps& maps) {
    const auto linked = pins.linked_ports();
    ASK_PASS(linked);
    for (const std::string& name : *linked) {
        if (std::ranges::find(config.ports, name) == config.ports.end()) {
            ASK_TRY(bpf::unpin(pins.link(name)), "detach " + name);
            spdlog::info("port {}: detached, no longer configured", name);
        }
    }
    const auto entries = maps.ports.keys();
    ASK_PASS(entries);
    for (const std::uint32_t ifindex : *entries) {
        if (std::ranges::find(ports, ifindex, &Port::ifindex) == ports.end()) {
            ASK_PASS(maps.ports.erase(ifindex));
        }
    }
    return {};
}

// Towards a neighbour behind that port.
Result<FanPort> fan_port(Netlink& netlink, const Port& port, std::uint32_t next_hop,
                         Netlink::Clock::time_point until) {
    const auto interface = netlink.interface(port.name);
    ASK_PASS(interface);
    const auto mac = netlink.resolve(port.ifindex, next_hop, until);
    ASK_PASS(mac);
    FanPort found{.port = {.name = port.name, .ifindex = port.ifindex, .mtu = port.mtu}};
    std::ranges::copy(*mac, found.member.mac);
    std::ranges::copy(interface->mac, found.member.port_mac);
    return found;
}

}  // namespace

Result<PortTable> PortTable::attach(const SwitchConfig& config, const PinDir& pins, const DataPlane& plane) {
    ASK_PASS(pins.make_directories());
    const bpf::XdpMode mode = config.xdp_mode == "generic" ? bpf::XdpMode::kGeneric : bpf::XdpMode::kNative;
    std::vector<Candidate> candidates;
    for (const std::string& name : config.ports) {
        auto candidate = examine(name, mode, pins, plane);
        ASK_PASS(candidate);
        candidates.push_back(std::move(*candidate));
    }
    PortTable result;
    for (const Candidate& candidate : candidates) {
        auto port = attach_port(candidate, mode, pins, plane);
        ASK_PASS(port);
        result.ports_.push_back(std::move(*port));
    }
    ASK_PASS(detach_others(config, result.ports_, pins, plane.maps()));
    return result;
}

const Port* PortTable::find(std::uint32_t ifindex) const {
    const auto it = std::ranges::find(ports_, ifindex, &Port::ifindex);
    return it == ports_.end() ? nullptr : &*it;
}

Result<Port> PortTable::route_to(std::uint32_t address) const {
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto route = netlink->route(address);
    if (!route.ok()) {
        return Error(Errc::kInput, "address " + format_ipv4(address) + ": " + route.error().text());
    }
    const Port* port = route->local ? nullptr : find(route->interface_index);
    if (port == nullptr) {
        return Error(Errc::kInput, "address " + format_ipv4(address) +
                                       " is not behind one of the switch's ports (" + joined_names(ports_) +
                                       "): check its route there");
    }
    return *port;
}

Result<std::vector<Port>> PortTable::ways_to(std::uint32_t address) const {
    const auto usual = route_to(address);
    ASK_PASS(usual);
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto ways = netlink->ways(address);
    ASK_TRY(ways, "address " + format_ipv4(address));
    std::vector<Port> found{*usual};
    for (const Route& way : *ways) {
        const Port* port = find(way.interface_index);
        if (port != nullptr && std::ranges::find(found, port->ifindex, &Port::ifindex) == found.end()) {
            found.push_back(*port);
        }
    }
    return found;
}

Result<std::vector<FanPort>> PortTable::fan_ports(std::uint32_t address) const {
    constexpr std::chrono::milliseconds kPatience{300};
    const auto usual = route_to(address);
    ASK_PASS(usual);
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto ways = netlink->ways(address);
    ASK_TRY(ways, "member " + format_ipv4(address));
    // One patience for all: a neighbour that is gone must not cost the others theirs.
    const auto until = Netlink::Clock::now() + kPatience;
    std::vector<FanPort> found;
    std::optional<Error> trouble;
    for (const Route& way : *ways) {
        const Port* const port = find(way.interface_index);
        if (port == nullptr) {
            continue;
        }
        auto fan = fan_port(*netlink, *port, way.next_hop, until);
        if (!fan.ok()) {
            trouble = std::move(fan).error().with_context("member " + format_ipv4(address));
            continue;
        }
        fan->member.address = htonl(address);
        found.insert(port->ifindex == usual->ifindex ? found.begin() : found.end(), *std::move(fan));
    }
    if (found.empty()) {
        return trouble ? *std::move(trouble)
                       : Error(Errc::kInput, "member " + format_ipv4(address) + " is behind no port");
    }
    return found;
}

Result<PortTable::Now> PortTable::now(const Port& port, std::uint32_t program_id) const {
    const auto interface = find_interface(port.name);
    ASK_PASS(interface);
    return Now{interface->mtu, interface->index == port.ifindex && interface->xdp_program == program_id};
}

}  // namespace ask
