// SPDX-License-Identifier: Apache-2.0
#include "loader/port_attach.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/consts.h"
#include "lib/abi/vlan.h"
#include "lib/bpf/object.h"
#include "lib/net/bond.h"
#include "loader/port_check.h"
#include "loader/veth_peer.h"

namespace ask {
namespace {

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

Result<> check_linked_mode(const InterfaceInfo& interface, bpf::XdpMode mode) {
    const auto obtained = interface.xdp_generic ? bpf::XdpMode::kGeneric : bpf::XdpMode::kNative;
    if (obtained == mode) {
        return {};
    }
    return Error(Errc::kUnsupported, "port " + interface.name + " is attached in " +
                                         std::string(to_string(obtained)) + " mode, configured " +
                                         std::string(to_string(mode)) + ": set xdp_mode to " +
                                         std::string(to_string(obtained)) + ", or run ask-switchd --unload");
}

// Says so where a map of ports has no room.
Result<> entered_port(const Port& port, Result<> entered) {
    if (!entered.ok() && entered.error().sys_errno() == E2BIG) {
        return one_too_many(port.name);
    }
    ASK_TRY(entered, "port " + port.name);
    return {};
}

Result<> enter_port(const PortSeat& seat, const Port& port) {
    return entered_port(port, seat.plane.maps().ports.set(port.ifindex, seat.plane.device(port.ifindex)));
}

// From here on the program asks for ports of that kind.
Result<> ask_for(const SwitchMaps& maps, std::uint32_t kind) {
    const auto kinds = maps.port_kinds.find(0);
    ASK_PASS(kinds);
    return maps.port_kinds.set(0, kinds->value_or(0) | kind);
}

// How the tag is known by which its packets come in first, as the first of them is to find the rest.
Result<> enter_vlan(const PortSeat& seat, const Port& port) {
    const SwitchMaps& maps = seat.plane.maps();
    const ask_vlan vlan{.ifindex = port.carrier_index, .id = port.vlan, .pad = 0};
    ASK_TRY(ask_for(maps, ASK_PORTS_ON_VLANS), "port " + port.name);
    ASK_PASS(entered_port(port, maps.vlan_out.set(port.ifindex, vlan)));
    return entered_port(port, maps.vlan_in.set(vlan, port.ifindex));
}

// Its tag may be that of another interface by now.
Result<> forget_vlan(const SwitchMaps& maps, std::uint32_t ifindex) {
    const auto vlan = maps.vlan_out.find(ifindex);
    ASK_PASS(vlan);
    if (!*vlan) {
        return {};
    }
    const auto owner = maps.vlan_in.find(**vlan);
    ASK_PASS(owner);
    ASK_PASS(*owner == ifindex ? maps.vlan_in.erase(**vlan) : Result<>());
    return maps.vlan_out.erase(ifindex);
}

// Forgets the entries of bridges that none of `ports` is on. Whether any is left.
Result<bool> keep_bridges(const SwitchMaps& maps, const std::vector<Port>& ports) {
    const auto bridged = maps.bridges.keys();
    ASK_PASS(bridged);
    bool any = false;
    for (const std::uint32_t ifindex : *bridged) {
        const bool used = std::ranges::any_of(ports, [ifindex](const Port& port) {
            return port.trouble.empty() && port.bridge_index != 0 &&
                   (port.ifindex == ifindex || port.bridge_index == ifindex ||
                    std::ranges::find(port.members, ifindex) != port.members.end());
        });
        ASK_PASS(used ? Result<>() : maps.bridges.erase(ifindex));
        any = any || used;
    }
    return any;
}

// The same of VLANs that are none of `ports`.
Result<bool> keep_vlans(const SwitchMaps& maps, const std::vector<Port>& ports) {
    const auto vlans = maps.vlan_out.keys();
    ASK_PASS(vlans);
    bool any = false;
    for (const std::uint32_t ifindex : *vlans) {
        const bool used = std::ranges::any_of(ports, [ifindex](const Port& port) {
            return port.trouble.empty() && port.vlan != 0 && port.ifindex == ifindex;
        });
        ASK_PASS(used ? Result<>() : forget_vlan(maps, ifindex));
        any = any || used;
    }
    return any;
}

// `ifindex`: the port's, or a member's.
void warn_of_peer(const Port& port, std::uint32_t ifindex) {
    switch (peer_takes_answers(ifindex)) {
        case PeerAnswers::kTaken:
            break;
        case PeerAnswers::kNoProgram:
            spdlog::warn(
                "port {}: its veth peer has no XDP program that can be seen; ACKs sent back through the port "
                "are lost until there is one (ask-agentd attaches it)",
                port.name);
            break;
        case PeerAnswers::kGeneric:
            spdlog::warn(
                "port {}: its veth peer has a generic XDP program; ACKs sent back through the port are lost "
                "there unless it has GRO on (ethtool -K PEER gro on) or a native one",
                port.name);
            break;
    }
}

std::string names_of(const std::vector<const InterfaceInfo*>& members) {
    std::string names;
    for (const InterfaceInfo* const member : members) {
        names += names.empty() ? "" : ", ";
        names += member->name;
    }
    return names;
}

// Attaches, and pins the link. The kernel puts a bond's program on its members.
Result<> link_port(const PortSeat& seat, const PortCandidate& candidate) {
    const InterfaceInfo& interface = candidate.interface;
    const auto link = bpf::attach_xdp(seat.plane.program(), interface.index, interface.name, seat.mode);
    if (!link.ok() && !candidate.members.empty()) {
        return Error(link.error())
            .with_context("port " + interface.name + " is a bond of " + names_of(candidate.members) +
                          ", each of which has to take the program");
    }
    ASK_PASS(link);
    return bpf::pin(link->get(), seat.pins.link(interface.name));
}

void tell_attached(const Port& port, const PortCandidate& candidate) {
    spdlog::info("port {}: {} in {} mode, MTU {}{}{}", port.name,
                 candidate.linked ? "still attached" : "attached", to_string(port.mode), port.mtu,
                 port.bridge.empty() ? "" : ", on bridge " + port.bridge,
                 candidate.members.empty() ? "" : ", by its members " + names_of(candidate.members));
    warn_of_peer(port, port.ifindex);
    for (const std::uint32_t member : port.members) {
        warn_of_peer(port, member);
    }
}

}  // namespace

Result<> check_members(const InterfaceInfo& bond, const std::vector<InterfaceInfo>& all) {
    ASK_PASS(check_bond(bond, all));
    for (const InterfaceInfo* const member : members_of(bond, all)) {
        ASK_PASS(check_member(bond, *member, all, driver_info(member->name)));
    }
    return {};
}

Error one_too_many(const std::string& port) {
    return {Errc::kLimit, "port " + port + " is one too many: a switch has at most " +
                              std::to_string(ASK_MAX_PORTS) + ", narrow the patterns of ports"};
}

Result<PortCandidate> examine_port(const PortSeat& seat, const InterfaceInfo& interface,
                                   const std::vector<InterfaceInfo>& all) {
    const auto linked = has_link(seat.pins, interface, seat.plane.program_id());
    ASK_TRY(linked, "port " + interface.name);
    ASK_PASS(*linked ? check_linked_mode(interface, seat.mode) : Result<>());
    ASK_PASS(*linked ? check_place(interface, all)
                     : check_port(interface, all, seat.mode, driver_info(interface.name)));
    PortCandidate candidate{.interface = interface, .bridge = bridge_of(interface, all), .linked = *linked};
    if (seat.mode == bpf::XdpMode::kNative) {
        ASK_PASS(check_members(interface, all));
        candidate.members = members_of(interface, all);
    }
    return candidate;
}

Result<> check_predecessor(const PortSeat& seat, const InterfaceInfo& interface) {
    const auto linked = has_link(seat.pins, interface, seat.plane.program_id());
    ASK_TRY(linked, "port " + interface.name);
    return *linked ? check_linked_mode(interface, seat.mode) : Result<>();
}

Result<> keep_entered(const PortSeat& seat, const Port& port) {
    if (port.vlan != 0) {
        return {};
    }
    const auto entry = seat.plane.maps().ports.find(port.ifindex);
    ASK_TRY(entry, "port " + port.name);
    return *entry ? Result<>() : enter_port(seat, port);
}

void stand_on(Port& port, const InterfaceInfo& interface, const InterfaceInfo* bridge) {
    const bool filters = bridge != nullptr && bridge->filters_vlans;
    port.bridge_index = bridge == nullptr ? 0 : bridge->index;
    port.bridge = bridge == nullptr ? "" : bridge->name;
    port.up = interface.up && interface.carrier && (bridge == nullptr || bridge->up);
    port.bridge_filters = filters;
    port.bridge_vlan = filters ? bridge->untagged : 0;
    port.untagged = filters ? interface.untagged : 0;
}

Result<> describe_port(const PortSeat& seat, const Port& port) {
    const SwitchMaps& maps = seat.plane.maps();
    std::vector<std::uint32_t> own = port.members;
    own.push_back(port.ifindex);
    if (port.bridge_index == 0) {
        for (const std::uint32_t ifindex : own) {
            ASK_PASS(maps.bridges.erase(ifindex));
        }
        return {};
    }
    ASK_TRY(ask_for(maps, ASK_PORTS_ON_BRIDGES), "port " + port.name);
    ASK_TRY(maps.bridges.set(port.bridge_index, port.bridge_index), "port " + port.name);
    for (const std::uint32_t ifindex : own) {
        ASK_TRY(maps.bridges.set(ifindex, port.bridge_index), "port " + port.name);
    }
    return {};
}

Result<> forget_bridges(const PortSeat& seat, const std::vector<Port>& ports) {
    const auto kept = keep_bridges(seat.plane.maps(), ports);
    return kept.ok() ? Result<>() : Result<>(kept.error());
}

Result<> forget_member(const PortSeat& seat, std::uint32_t ifindex) {
    return seat.plane.maps().bridges.erase(ifindex);
}

Result<Port> attach_port(const PortSeat& seat, const PortCandidate& candidate) {
    const auto& [interface, bridge, linked, members] = candidate;
    Port port{.name = interface.name, .ifindex = interface.index, .mode = seat.mode, .mtu = interface.mtu};
    stand_on(port, interface, bridge);
    std::ranges::transform(members, std::back_inserter(port.members), &InterfaceInfo::index);
    // First, as the program's first packet would go by its own routes.
    ASK_PASS(describe_port(seat, port));
    ASK_PASS(linked ? Result<>() : link_port(seat, candidate));
    if (auto entered = enter_port(seat, port); !entered.ok()) {
        ASK_PASS(detach_port(seat, port.name, port.ifindex));
        return std::move(entered).error();
    }
    tell_attached(port, candidate);
    return port;
}

bool is_carried(const PortSeat& seat, const InterfaceInfo& interface) {
    return interface.kind == "vlan" && seat.mode == bpf::XdpMode::kNative;
}

Result<Port> attach_vlan(const PortSeat& seat, const PortCandidate& candidate, const Port& carrier) {
    const InterfaceInfo& interface = candidate.interface;
    Port port{.name = interface.name, .ifindex = interface.index, .mode = seat.mode, .mtu = interface.mtu};
    port.vlan = interface.vlan;
    port.carrier_index = carrier.ifindex;
    port.carrier = carrier.name;
    stand_on(port, interface, candidate.bridge);
    ASK_PASS(describe_port(seat, port));
    if (auto entered = enter_vlan(seat, port); !entered.ok()) {
        ASK_PASS(detach_port(seat, port.name, port.ifindex));
        return std::move(entered).error();
    }
    spdlog::info("port {}: VLAN {} of port {}, MTU {}{}", port.name, port.vlan, port.carrier, port.mtu,
                 port.bridge.empty() ? "" : ", on bridge " + port.bridge);
    return port;
}

Result<> detach_port(const PortSeat& seat, const std::string& name, std::uint32_t ifindex) {
    ASK_TRY(forget_vlan(seat.plane.maps(), ifindex), "detach " + name);
    ASK_TRY(bpf::detach_pinned(seat.pins.link(name)), "detach " + name);
    ASK_TRY(seat.plane.maps().ports.erase(ifindex), "detach " + name);
    ASK_TRY(seat.plane.maps().bridges.erase(ifindex), "detach " + name);
    return {};
}

Result<> detach_others(const PortSeat& seat, const std::vector<Port>& ports) {
    const auto is_attached = [&ports](const auto& what, auto member) {
        return std::ranges::any_of(
            ports, [&](const Port& port) { return port.trouble.empty() && port.*member == what; });
    };
    const auto linked = seat.pins.linked_ports();
    ASK_PASS(linked);
    for (const std::string& name : *linked) {
        if (!is_attached(name, &Port::name)) {
            ASK_TRY(bpf::detach_pinned(seat.pins.link(name)), "detach " + name);
            spdlog::info("port {}: detached, no longer configured", name);
        }
    }
    const SwitchMaps& maps = seat.plane.maps();
    const auto entries = maps.ports.keys();
    ASK_PASS(entries);
    for (const std::uint32_t ifindex : *entries) {
        ASK_PASS(is_attached(ifindex, &Port::ifindex) ? Result<>() : maps.ports.erase(ifindex));
    }
    const auto on_bridges = keep_bridges(maps, ports);
    ASK_PASS(on_bridges);
    const auto on_vlans = keep_vlans(maps, ports);
    ASK_PASS(on_vlans);
    return maps.port_kinds.set(
        0, (*on_bridges ? ASK_PORTS_ON_BRIDGES : 0U) | (*on_vlans ? ASK_PORTS_ON_VLANS : 0U));
}

}  // namespace ask
