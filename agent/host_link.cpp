// SPDX-License-Identifier: Apache-2.0
#include "agent/host_link.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/link_check.h"
#include "agent/link_sockets.h"
#include "lib/control/member/convert.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/rpc/hosts6.h"

namespace ask {
namespace {

// `interface`: the first of the agent's.
Result<std::uint32_t> own_address(Netlink& netlink, const InterfaceInfo& interface,
                                  const AgentConfig& config) {
    auto addresses = netlink.addresses(interface.index);
    if (!addresses) {
        return std::move(addresses).error();
    }
    if (config.address.empty()) {
        if (addresses->empty()) {
            return Error(
                Errc::kUnknown,
                "interface " + interface.name +
                    " has no address that others could reach it by, neither of IPv4 nor a global one "
                    "of IPv6: give it one, or set `address`");
        }
        return addresses->front();
    }
    const auto wanted = parse_host(config.address);
    ASK_TRY(wanted, "address");
    if (std::ranges::find(*addresses, *wanted) != addresses->end()) {
        return *wanted;
    }
    // One that is reached by several interfaces may be the loopback's.
    if (!config.more_interfaces.empty()) {
        return is_own_address(*wanted) ? Result<std::uint32_t>(*wanted)
                                       : Error(Errc::kUnknown, "address " + config.address +
                                                                   " is not this host's: check `address`");
    }
    return Error(Errc::kUnknown, "address " + config.address + " is not one of interface " + interface.name +
                                     ": check `address` and `interface`");
}

// The interface once no XDP program is attached to it; or as it is, after a while: attaching names the
// program. That of a former agent stays for a moment after a crash.
Result<InterfaceInfo> free_interface(Netlink& netlink, const std::string& name) {
    constexpr std::chrono::seconds kPatience{1};
    constexpr std::chrono::milliseconds kRetry{5};
    const auto deadline = Clock::now() + kPatience;
    while (true) {
        auto interface = netlink.interface(name);
        if (!interface.ok() || interface->xdp_program == 0 || Clock::now() >= deadline) {
            return interface;
        }
        // The kernel says nothing when the program goes: ask again.
        std::this_thread::sleep_for(kRetry);
    }
}

Result<InterfaceInfo> usable_interface(Netlink& netlink, const std::string& name, XdpMode mode) {
    auto interface = free_interface(netlink, name);
    ASK_PASS(interface);
    if (!interface->up) {
        return Error(Errc::kUnsupported, "interface " + name + " is down: ip link set dev " + name + " up");
    }
    ASK_TRY(check_link(*interface, mode, driver_info(name)), "ask-agentd");
    return interface;
}

Error named_twice(const std::string& name) {
    return {Errc::kUsage, "interface " + name + " is named twice: check `interface` and `more_interfaces`"};
}

Error alike(const std::string& first, const std::string& second) {
    std::string text = "interfaces " + first + " and " + second;
    text += " have one Ethernet address: give one another (ip link set dev " + second;
    text += " address ...), or leave it out of `more_interfaces`";
    return {Errc::kUsage, std::move(text)};
}

// Workers tell by a frame's source which interface it is to leave by.
Result<std::vector<InterfaceInfo>> usable_interfaces(Netlink& netlink, const AgentConfig& config,
                                                     XdpMode mode) {
    std::vector<InterfaceInfo> all;
    all.reserve(1 + config.more_interfaces.size());
    auto first = usable_interface(netlink, config.interface, mode);
    ASK_TRY(first, "check `interface`");
    all.push_back(*std::move(first));
    for (const std::string& name : config.more_interfaces) {
        auto next = usable_interface(netlink, name, mode);
        ASK_TRY(next, "check `more_interfaces`");
        const auto like = std::ranges::find(all, next->mac, &InterfaceInfo::mac);
        if (like != all.end()) {
            return like->index == next->index ? named_twice(name) : alike(like->name, name);
        }
        all.push_back(*std::move(next));
    }
    return all;
}

// Adds the interface's program and sockets to the link's.
Result<> take_interface(const InterfaceInfo& interface, const AgentConfig& config, XdpMode mode,
                        HostLink& link) {
    // Sockets first: a kernel without AF_XDP says so more clearly here than where the program is loaded.
    LinkSockets on{.interface = interface, .mac = interface.mac, .mtu = interface.mtu};
    on.sending = sending_queues(interface.name);
    ASK_TRY(open_sockets(config, on), "ask-agentd");
    auto program = HostProgram::load({.interface = interface.name,
                                      .interface_index = interface.index,
                                      .own_address = link.address,
                                      .queues = std::max(interface.rx_queues, 1U),
                                      .mode = mode});
    ASK_PASS(program);
    ASK_TRY(steer(on, *program), "steering");
    ASK_TRY(program->attach(), "ask-agentd: steering");
    ASK_TRY(open_further_sockets(config, on, *program), "ask-agentd");
    ASK_PASS(check_workers(config, on));
    link.programs.push_back(*std::move(program));
    std::ranges::move(on.sockets, std::back_inserter(link.sockets));
    return {};
}

Result<> take_bond(const InterfaceInfo& interface, const AgentConfig& config, HostLink& link) {
    BondLink bond{.bond = interface, .nth = link.programs.size()};
    auto program = open_bond(config, link.address, bond, link.sockets);
    ASK_TRY(program, "ask-agentd");
    link.programs.push_back(*std::move(program));
    link.bonds.push_back(std::move(bond));
    return {};
}

// The way that the kernel would take, if that is by one of the interfaces; else, or if it is down there, the
// first that leads out by another of them. A host may have several ways out, and the kernel takes another for
// a look-up than its neighbour is for.
Result<Route> way_out(Netlink& netlink, std::span<const InterfaceInfo> interfaces, std::uint32_t dest,
                      const Route& taken) {
    std::optional<Route> best;
    for (const InterfaceInfo& interface : interfaces) {
        const bool is_taken = interface.index == taken.interface_index;
        if (is_taken && interfaces.size() == 1) {
            return taken;
        }
        const auto way = netlink.way_by(dest, interface.index);
        if (way.ok() && (!best || (best->down && !way->down) || (is_taken && !way->down))) {
            best = *way;
        }
    }
    if (best) {
        return *best;
    }
    std::string names;
    for (const InterfaceInfo& interface : interfaces) {
        names += (names.empty() ? "" : " or ") + interface.name;
    }
    return Error(Errc::kUnsupported,
                 "no route to " + format_host(dest) + " leads through " + names +
                     ": add one (ip route add ... dev " + interfaces.front().name +
                     "), or change the agent's `interface`, or add another as `more_interfaces`");
}

}  // namespace

Result<HostLink> HostLink::open(const AgentConfig& config) {
    ASK_TRY(check_host_capabilities(), "ask-agentd");
    auto netlink = Netlink::open();
    if (!netlink) {
        return std::move(netlink).error();
    }
    const XdpMode mode = config.xdp_mode == "generic" ? XdpMode::kGeneric : XdpMode::kNative;
    auto interfaces = usable_interfaces(*netlink, config, mode);
    ASK_PASS(interfaces);
    auto address = own_address(*netlink, interfaces->front(), config);
    ASK_PASS(address);
    HostLink link;
    link.address = *address;
    link.programs.reserve(interfaces->size());
    for (const InterfaceInfo& interface : *interfaces) {
        const bool by_members = interface.kind == "bond" && mode == XdpMode::kNative;
        ASK_PASS(by_members ? take_bond(interface, config, link)
                            : take_interface(interface, config, mode, link));
    }
    for (const BondLink& bond : link.bonds) {
        const auto its = std::ranges::count(link.sockets, bond.bond.mac, &XskSocket::mac);
        (*interfaces)[bond.nth].rx_queues = static_cast<std::uint32_t>(its);
    }
    link.interfaces = *std::move(interfaces);
    link.bind_mode = std::ranges::all_of(link.sockets, &XskSocket::zero_copy) ? "zerocopy" : "copy";
    return link;
}

std::uint32_t HostLink::mtu() const {
    return std::ranges::min(interfaces, {}, &InterfaceInfo::mtu).mtu;
}

Result<Path> find_path(std::span<const InterfaceInfo> interfaces, std::uint32_t address, std::uint32_t dest,
                       Clock::time_point deadline) {
    auto netlink = Netlink::open();
    if (!netlink) {
        return std::move(netlink).error();
    }
    const auto route = netlink->route(dest);
    ASK_PASS(route);
    Path path;
    if (route->local) {
        path.addresses.source = address;
        path.addresses.dest = dest;
        path.local = true;
        return path;
    }
    ASK_PASS(set_hosts(path.addresses, address, dest));
    const auto way = way_out(*netlink, interfaces, dest, *route);
    ASK_PASS(way);
    auto mac = netlink->resolve(*way, deadline);
    if (!mac) {
        return std::move(mac).error();
    }
    path.addresses.source_mac =
        std::ranges::find(interfaces, way->interface_index, &InterfaceInfo::index)->mac;
    path.addresses.dest_mac = *mac;
    return path;
}

bool is_own_address(std::uint32_t address) {
    auto netlink = Netlink::open();
    if (!netlink) {
        return false;
    }
    const auto route = netlink->route(address);
    return route.ok() && route->local;
}

namespace {

// Without a user: of the configuration.
Result<std::uint32_t> number_for(const Result<NamedHost>& host, std::optional<std::uint32_t> user) {
    ASK_PASS(host);
    return user ? introduce(*host, *user) : enter_host(*host);
}

// ADDRESS or ADDRESS:PORT, of IPv6 ADDRESS or [ADDRESS]:PORT; nothing if it is neither. An error: no host has
// such an address.
std::optional<Result<HostAddress>> literal_of(const std::string& text, std::optional<std::uint32_t> user) {
    const auto parts = split_host_port(text);
    const bool alone = parse_ipv4(text) || parse_ipv6(text);
    const bool with_port = !alone && parts.ok() && (parts->host.front() == '[' || parse_ipv4(parts->host));
    if (!alone && !with_port) {
        return std::nullopt;
    }
    const auto number = number_for(alone ? read_host(text) : read_host_of_control(text), user);
    if (!number.ok()) {
        return Error(number.error()).with_context("host \"" + clean_name(text) + "\"");
    }
    return HostAddress{*number, alone ? kControlPort : parts->port};
}

// Of what looks like an address and is none.
Result<> check_no_address(const std::string& name) {
    const std::string whose = "host \"" + clean_name(name) + "\"";
    const std::string front = name.substr(0, name.find_first_of("/%"));
    const auto ipv6 = parse_ipv6(front.starts_with('[') ? front.substr(1) : front);
    if (front == name || (!ipv6 && !parse_ipv4(front))) {
        return {};
    }
    if (name[front.size()] == '/') {
        return Error(Errc::kUsage, whose + " is a range of addresses: name one host");
    }
    ASK_TRY(ipv6 ? check_ipv6_host(*ipv6) : Result<>(), whose);
    return Error(Errc::kUsage, whose + " has a zone, which only what is link-local has: leave it out");
}

using FoundAddresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<NamedHost> host_of_found(const addrinfo& found) {
    if (found.ai_family == AF_INET6) {
        sockaddr_in6 address{};
        std::memcpy(&address, found.ai_addr, sizeof(address));
        Ipv6Address bytes{};
        std::memcpy(bytes.data(), &address.sin6_addr, bytes.size());
        return read_host(format_ipv6(bytes));
    }
    sockaddr_in address{};
    std::memcpy(&address, found.ai_addr, sizeof(address));
    return read_host(format_ipv4(ntohl(address.sin_addr.s_addr)));
}

// Its address of `family`, if it has one, else of the other.
Result<std::uint32_t> look_up_name(const std::string& name, int family, std::uint32_t user) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
    if (error != 0) {
        return Error(Errc::kUnknown, "host \"" + clean_name(name) +
                                         "\": not in the agent's [hosts], no IPv4 or IPv6 address, and " +
                                         ::gai_strerror(error));
    }
    const FoundAddresses owned(found, &::freeaddrinfo);
    const addrinfo* best = owned.get();
    while (best->ai_family != family && best->ai_next != nullptr) {
        best = best->ai_next;
    }
    const auto number = number_for(host_of_found(best->ai_family == family ? *best : *owned), user);
    ASK_TRY(number, "host \"" + clean_name(name) + "\"");
    return *number;
}

}  // namespace

void HostNames::set(std::map<std::string, std::string> hosts) {
    const std::lock_guard lock(mutex_);
    hosts_ = std::move(hosts);
}

std::optional<std::string> HostNames::find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto known = hosts_.find(name);
    return known == hosts_.end() ? std::nullopt : std::optional(known->second);
}

Result<HostAddress> HostNames::resolve(const std::string& name, int family, std::uint32_t user) const {
    const auto literal = [&](const std::string& host) {
        const auto known = find(host);
        return known ? literal_of(*known, std::nullopt) : literal_of(host, user);
    };
    if (!find(name)) {
        ASK_PASS(check_no_address(name));
    }
    if (auto address = literal(name)) {
        return *std::move(address);
    }
    std::string host = name;
    std::optional<std::uint16_t> port;
    if (name.find(':') != std::string::npos) {
        auto parts = split_host_port(name);
        ASK_TRY(parts, "host \"" + clean_name(name) + "\"");
        host = parts->host;
        port = parts->port;
    }
    if (const auto address = literal(host)) {
        ASK_PASS(*address);
        return HostAddress{(*address)->address, port.value_or((*address)->port)};
    }
    const auto looked_up = look_up_name(host, family, user);
    ASK_PASS(looked_up);
    return HostAddress{*looked_up, port.value_or(kControlPort)};
}

}  // namespace ask
