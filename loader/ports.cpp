// SPDX-License-Identifier: Apache-2.0
#include "loader/ports.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>

#include <spdlog/spdlog.h>

#include "lib/abi/consts.h"
#include "lib/net/bond.h"
#include "loader/port_check.h"
#include "loader/port_ways.h"

namespace ask {
namespace {

// A machine may have a thousand ports in trouble: looking for what nobody tells of takes a hundredth of a
// processor at most.
constexpr int kRest = 100;

std::chrono::nanoseconds cpu_time() {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

bool is_attached(const Port& port) {
    return port.trouble.empty();
}

Port troubled(const std::string& name, std::uint32_t ifindex, bpf::XdpMode mode, std::string trouble) {
    return {.name = name, .ifindex = ifindex, .mode = mode, .trouble = std::move(trouble)};
}

Port missing_port(const std::string& name, bpf::XdpMode mode) {
    return troubled(name, 0, mode,
                    "port " + name + ": no such interface in this network namespace: create it, or " +
                        "take it out of ports");
}

const Port* find_port(const std::vector<Port>& ports, const std::string& name, std::uint32_t ifindex) {
    const auto it = std::ranges::find_if(
        ports, [&](const Port& port) { return port.ifindex == ifindex && port.name == name; });
    return it == ports.end() ? nullptr : &*it;
}

// Once for each reason.
void tell_trouble(const Port& port, const std::vector<Port>& before) {
    const Port* const known = find_port(before, port.name, port.ifindex);
    if (!is_attached(port) && (known == nullptr || known->trouble != port.trouble)) {
        spdlog::warn("{}; tried again when that changes", port.trouble);
    }
}

// The port that a VLAN's packets come by, if it is one, and attached.
const Port* find_carrier(const std::vector<Port>& ports, const InterfaceInfo& vlan) {
    const auto it = std::ranges::find_if(ports, [&vlan](const Port& port) {
        return vlan.lower != 0 && port.ifindex == vlan.lower && is_attached(port);
    });
    return it == ports.end() ? nullptr : &*it;
}

// Whether hosts may be behind other ports than before.
bool is_other(const std::vector<Port>& before, const std::vector<Port>& after) {
    return !std::ranges::equal(before, after, [](const Port& one, const Port& other) {
        return one.name == other.name && one.ifindex == other.ifindex &&
               one.bridge_index == other.bridge_index && one.bridge_filters == other.bridge_filters &&
               one.bridge_vlan == other.bridge_vlan && one.untagged == other.untagged &&
               one.members == other.members && one.up == other.up && is_attached(one) == is_attached(other);
    });
}

// Whether it still is an interface that is to be a port.
bool stays(const Port& port, const PortChoice& choice) {
    return std::ranges::any_of(choice.ports, [&port](const PortChoice::Named& named) {
        return named.interface.index == port.ifindex && named.interface.name == port.name;
    });
}

// The name of the port that is to carry a VLAN; empty: it is none.
std::string chosen_carrier(const PortChoice& choice, const InterfaceInfo& vlan) {
    const auto it = std::ranges::find_if(choice.ports, [&vlan](const PortChoice::Named& named) {
        return vlan.lower != 0 && named.interface.index == vlan.lower;
    });
    return it == choice.ports.end() ? "" : it->interface.name;
}

// How many of those that are attached, and are no VLANs, are to stay so.
std::size_t held_of(const std::vector<Port>& before, const PortChoice& choice) {
    return static_cast<std::size_t>(std::ranges::count_if(before, [&choice](const Port& port) {
        return is_attached(port) && port.vlan == 0 && stays(port, choice);
    }));
}

// Before anything is attached. A switch that nobody uses yet has to be what its configuration says in so many
// words; one that is adopted, what can be taken on.
Result<> check_start(const PortSeat& seat, const PortChoice& choice, const std::vector<InterfaceInfo>& all) {
    for (const PortChoice::Named& port : choice.ports) {
        if (seat.plane.adopted()) {
            ASK_PASS(check_predecessor(seat, port.interface));
        } else if (port.in_full && is_carried(seat, port.interface)) {
            const std::string carrier = chosen_carrier(choice, port.interface);
            ASK_PASS(check_vlan(port.interface, all, carrier, driver_info(carrier)));
        } else if (port.in_full) {
            ASK_PASS(examine_port(seat, port.interface, all));
        }
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<PortTable>> PortTable::attach(const SwitchConfig& config, const PinDir& pins,
                                                     const DataPlane& plane) {
    ASK_PASS(pins.make_directories());
    // From before the first look, so that no change is missed.
    auto watch = LinkWatch::open();
    ASK_PASS(watch);
    const bpf::XdpMode mode = config.xdp_mode == "generic" ? bpf::XdpMode::kGeneric : bpf::XdpMode::kNative;
    std::unique_ptr<PortTable> table(
        new PortTable(config, {.pins = pins, .plane = plane, .mode = mode}, *std::move(watch)));
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto all = netlink->interfaces();
    ASK_PASS(all);
    ASK_PASS(check_start(table->seat_, choose_ports(config.ports, *all), *all));
    const auto looked = table->look(!plane.adopted());
    ASK_PASS(looked);
    table->owed_ = looked->owed;
    ASK_PASS(detach_others(table->seat_, table->ports_));
    return table;
}

bool PortTable::follow() {
    const LinkWatch::Changes changes = watch_.changed();
    const bool moved = changes.stations && is_any([](const Port& port) { return port.bridge_index != 0; });
    // What stands in the way of one that is there may go without a word.
    const bool wanting =
        owed_ || is_any([](const Port& port) { return !is_attached(port) && port.ifindex != 0; });
    if (!changes.links && !(wanting && std::chrono::steady_clock::now() >= rest_)) {
        return moved;
    }
    const auto begin = cpu_time();
    const auto looked = look(false);
    rest_ = std::chrono::steady_clock::now() + kRest * (cpu_time() - begin);
    if (!looked.ok() && !owed_) {
        spdlog::error("ports: {}; tried again", looked.error().text());
    }
    owed_ = !looked.ok() || looked->owed;
    return moved || (looked.ok() && looked->changed);
}

Result<PortTable::Look> PortTable::look(bool strict) {
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto interfaces = netlink->interfaces();
    ASK_PASS(interfaces);
    const PortChoice choice = choose_ports(names_, *interfaces);
    const std::vector<Port> before = all();
    Look look;
    drop_gone(before, choice, look);
    auto settled = settle_all(choice, before, *interfaces, strict);
    ASK_PASS(settled);
    std::vector<Port> after = *std::move(settled);
    std::ranges::transform(choice.missing, std::back_inserter(after),
                           [this](const std::string& name) { return missing_port(name, seat_.mode); });
    for (const Port& port : after) {
        tell_trouble(port, before);
    }
    // What was left half done is done now.
    if (owed_ && !detach_others(seat_, after).ok()) {
        look.owed = true;
    }
    look.changed = is_other(before, after);
    // Those that are gone would fill the map, one after the other.
    if (look.changed && !forget_bridges(seat_, after).ok()) {
        look.owed = true;
    }
    const std::lock_guard lock(mutex_);
    ports_ = std::move(after);
    return look;
}

// VLANs behind the others, which carry them.
Result<std::vector<Port>> PortTable::settle_all(const PortChoice& choice, const std::vector<Port>& before,
                                                const std::vector<InterfaceInfo>& all, bool strict) const {
    std::vector<Port> after(choice.ports.size());
    // Looked at ahead of attaching, which the kernel tells all who watch, and this one would look again.
    std::size_t held = held_of(before, choice);
    for (const bool carried : {false, true}) {
        for (std::size_t i = 0; i < after.size(); ++i) {
            const auto& [interface, in_full] = choice.ports[i];
            if (is_carried(seat_, interface) != carried) {
                continue;
            }
            const Port* const known = find_port(before, interface.name, interface.index);
            const bool is_new = !carried && (known == nullptr || !is_attached(*known));
            const bool room = !is_new || held < ASK_MAX_PORTS;
            auto port =
                carried ? settle_vlan(interface, known, all, after) : settle(interface, known, all, room);
            held += std::size_t{is_new && port.ok()};
            if (!port.ok() && strict && in_full) {
                return std::move(port).error();
            }
            after[i] = port.ok() ? *std::move(port)
                                 : troubled(interface.name, interface.index, seat_.mode,
                                            std::string(port.error().text()));
        }
    }
    return after;
}

void PortTable::drop_gone(const std::vector<Port>& before, const PortChoice& choice, Look& look) const {
    for (const Port& port : before) {
        if (stays(port, choice) || !is_attached(port)) {
            continue;
        }
        spdlog::info("port {}: its interface is gone, or called otherwise", port.name);
        if (const auto dropped = detach_port(seat_, port.name, port.ifindex); !dropped.ok()) {
            spdlog::error("{}", dropped.error().text());
            look.owed = true;
        }
    }
}

Result<Port> PortTable::settle(const InterfaceInfo& interface, const Port* known,
                               const std::vector<InterfaceInfo>& all, bool room) const {
    if (known != nullptr && is_attached(*known) && interface.xdp_program == seat_.plane.program_id()) {
        return keep(interface, *known, all);
    }
    if (!room) {
        return one_too_many(interface.name);
    }
    const auto candidate = examine_port(seat_, interface, all);
    ASK_PASS(candidate);
    return attach_port(seat_, *candidate);
}

// What it is on may have changed in every way, so everything is looked at each time.
Result<Port> PortTable::settle_vlan(const InterfaceInfo& interface, const Port* known,
                                    const std::vector<InterfaceInfo>& all,
                                    const std::vector<Port>& ports) const {
    const Port* const carrier = find_carrier(ports, interface);
    const std::string name = carrier == nullptr ? "" : carrier->name;
    auto checked = check_vlan(interface, all, name, driver_info(name));
    if (checked.ok()) {
        checked = check_predecessor(seat_, interface);
    }
    const bool attached = known != nullptr && is_attached(*known);
    if (!checked.ok()) {
        ASK_PASS(attached ? detach_port(seat_, known->name, known->ifindex) : Result<>());
        return std::move(checked).error();
    }
    if (attached && known->vlan == interface.vlan && known->carrier_index == carrier->ifindex) {
        Port port = *known;
        port.carrier = name;
        return keep(interface, std::move(port), all);
    }
    return attach_vlan(seat_, {.interface = interface, .bridge = bridge_of(interface, all)}, *carrier);
}

// One that is attached: its MTU may be another, or the bridge that it is on.
Result<Port> PortTable::keep(const InterfaceInfo& interface, Port port,
                             const std::vector<InterfaceInfo>& all) const {
    if (auto placed = check_place(interface, all); !placed.ok()) {
        ASK_PASS(detach_port(seat_, port.name, port.ifindex));
        return std::move(placed).error();
    }
    auto members = take_members(interface, port, all);
    ASK_PASS(members);
    ASK_PASS(keep_entered(seat_, port));
    const InterfaceInfo* const bridge = bridge_of(interface, all);
    const std::uint32_t before = port.bridge_index;
    port.mtu = interface.mtu;
    stand_on(port, interface, bridge);
    const bool joined_or_left = port.members != *members;
    port.members = *std::move(members);
    ASK_PASS(port.bridge_index == before && !joined_or_left ? Result<>() : describe_port(seat_, port));
    return port;
}

// The members of a port that is attached, which the kernel has put its program on; it is detached where one
// would lose packets.
Result<std::vector<std::uint32_t>> PortTable::take_members(const InterfaceInfo& interface, const Port& port,
                                                           const std::vector<InterfaceInfo>& all) const {
    std::vector<std::uint32_t> members;
    if (port.mode == bpf::XdpMode::kNative) {
        std::ranges::transform(members_of(interface, all), std::back_inserter(members),
                               &InterfaceInfo::index);
    }
    if (members == port.members) {
        return members;
    }
    for (const std::uint32_t member : port.members) {
        ASK_PASS(forget_member(seat_, member));
    }
    if (auto checked = check_members(interface, all); !checked.ok()) {
        ASK_PASS(detach_port(seat_, port.name, port.ifindex));
        return std::move(checked).error();
    }
    spdlog::info("port {}: a bond of {} members", port.name, members.size());
    return members;
}

bool PortTable::is_any(bool (*is)(const Port&)) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(ports_, is);
}

std::vector<Port> PortTable::all() const {
    const std::lock_guard lock(mutex_);
    return ports_;
}

std::vector<Port> PortTable::attached() const {
    std::vector<Port> ports = all();
    std::erase_if(ports, [](const Port& port) { return !is_attached(port); });
    return ports;
}

std::optional<Port> PortTable::find(std::uint32_t ifindex) const {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find_if(ports_, [ifindex](const Port& port) {
        return is_attached(port) &&
               (port.ifindex == ifindex || std::ranges::find(port.members, ifindex) != port.members.end());
    });
    return it == ports_.end() ? std::nullopt : std::optional(*it);
}

Result<Port> PortTable::route_to(std::uint32_t address) const {
    return port_to(attached(), address);
}

Result<std::vector<Port>> PortTable::ways_to(std::uint32_t address) const {
    return ports_to(attached(), address);
}

Result<std::vector<FanPort>> PortTable::fan_ports(std::uint32_t address) const {
    return fan_ports_to(attached(), address);
}

Result<PortTable::Now> PortTable::now(const Port& port, std::uint32_t program_id) const {
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    const auto interface = netlink->interface(port.name);
    ASK_PASS(interface);
    const bool same = interface->index == port.ifindex;
    if (port.vlan == 0) {
        return Now{interface->mtu, same && interface->xdp_program == program_id};
    }
    const auto carrier = netlink->interface(port.carrier);
    ASK_PASS(carrier);
    return Now{interface->mtu,
               same && carrier->index == port.carrier_index && carrier->xdp_program == program_id};
}

}  // namespace ask
