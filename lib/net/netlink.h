// SPDX-License-Identifier: Apache-2.0
//
// What the agent asks the kernel about interfaces, addresses, routes and neighbours, over rtnetlink: it
// answers for the network namespace that the process is in, which /sys/class/net does not always.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"

struct ifinfomsg;  // NOLINT(readability-identifier-naming): the kernel's
struct nlmsghdr;   // NOLINT(readability-identifier-naming): likewise

namespace ask {

struct InterfaceInfo {
    std::string name;
    std::uint32_t index = 0;
    MacAddress mac{};
    std::uint32_t mtu = 0;
    std::uint32_t rx_queues = 0;  // all that exist, advertised by ethtool or not
    bool up = false;
    bool loopback = false;
    std::uint32_t xdp_program = 0;  // id of the XDP program that is attached; 0: none
    bool xdp_generic = false;       // that is generic
    std::string kind;               // "veth", "bridge", "bond", "vlan" ...; empty: a device of the machine
    std::uint32_t master = 0;       // index of the bridge or bond that it is a member of
    std::uint32_t lower = 0;        // of a VLAN: the interface that it is on. Of a veth, its peer elsewhere
    bool lower_elsewhere = false;   // that is in another network namespace
    bool filters_vlans = false;     // a bridge that does
    std::uint16_t vlan = 0;         // of a VLAN: which one
    bool service_tags = false;      // its tags are 802.1ad's; those of a bridge that filters, too
    std::uint16_t untagged =
        0;  // there, of bridge and ports: in which VLAN frames are that have no tag; 0: none
    std::uint8_t bond_mode = 0;     // of a bond: BOND_MODE_* of <linux/if_bonding.h>
    std::uint8_t bond_policy = 0;   // of a bond: BOND_XMIT_POLICY_*
    bool bond_changes_mac = false;  // with its active member
    bool carrier = false;           // it has one
    bool bond_sends = false;        // of a bond's member: the bond may send by it now
};

// What the kernel counts of an interface.
struct InterfaceTraffic {
    struct Way {
        std::uint64_t packets = 0;
        std::uint64_t bytes = 0;
        std::uint64_t errors = 0;
        std::uint64_t dropped = 0;  // by the interface, missed ones too, and by the kernel
    };
    Way in;
    Way out;
};

// How packets to an address leave this host.
struct Route {
    bool local = false;  // the address is one of our own
    std::uint32_t interface_index = 0;
    std::uint32_t next_hop = 0;              // the gateway, or the address itself; 0: it has none of IPv4
    bool down = false;                       // the next hop cannot be reached: no carrier, or gone
    std::optional<Ipv6Address> next_hop6{};  // the same of IPv6, which may be link-local
};
[[nodiscard]] std::string format_next_hop(const Route& way);

// How many of the interface's queues the stack sends on, by ethtool; all of them if the driver does not say.
// Ask while no XDP program is attached: virtio-net takes further queues for one and counts them in, and
// AF_XDP receives on those but sends nothing.
std::uint32_t sending_queues(const std::string& name);

// Whether this network namespace has an interface of that index. One that is made again has another.
[[nodiscard]] bool has_interface(std::uint32_t index);

// One rtnetlink conversation. Not thread-safe; opening one is cheap. Hosts are numbers (lib/net/host_book.h):
// kUnknown, too, where the book does not know one.
class Netlink {
 public:
    using Clock = std::chrono::steady_clock;

    static Result<Netlink> open();
    // With whoever is at the other end of a socket of messages, and answers as the kernel does.
    static Netlink over(UniqueFd socket) { return Netlink(std::move(socket)); }

    // kUnknown: no such interface.
    Result<InterfaceInfo> interface(std::string_view name);
    // All of this network namespace.
    Result<std::vector<InterfaceInfo>> interfaces();
    // The ports by which a bridge's forwarding database says that a station is: one, or none. In that VLAN,
    // if one is given: a bridge that filters them has a database for each.
    Result<std::vector<std::uint32_t>> bridge_ports(std::uint32_t bridge, const MacAddress& mac,
                                                    std::uint16_t vlan = 0);
    Result<InterfaceTraffic> traffic(std::string_view name);
    // Addresses of an interface that others may reach it by, as numbers of hosts: IPv4 ones first, and of
    // those the primary one. Of IPv6 global and unique local ones alone, which are entered into the book, but
    // none that is temporary, deprecated or somebody else's. Empty: none.
    Result<std::vector<std::uint32_t>> addresses(std::uint32_t interface_index);
    // kUnknown: no route.
    Result<Route> route(std::uint32_t dest);
    // All ways that the route has, those without a carrier too: several where it has several next hops. By an
    // interface, if one is given: the route that packets bound to it take.
    Result<std::vector<Route>> ways(std::uint32_t dest, std::uint32_t by_interface = 0);
    // The way there that leads through the interface: one of several next hops, or what another table, or a
    // route of a higher metric, has for packets bound to it. kUnknown: none does.
    Result<Route> way_by(std::uint32_t dest, std::uint32_t interface_index);
    // The neighbour's Ethernet address as the kernel knows it now; nothing if it does not, or no longer.
    Result<std::optional<MacAddress>> neighbour(std::uint32_t interface_index, std::uint32_t address);
    // Of the next hop.
    Result<std::optional<MacAddress>> neighbour(const Route& way);
    // The same, asking the neighbour (ARP, NDP) if need be. kDeadline: it did not answer in time.
    Result<MacAddress> resolve(std::uint32_t interface_index, std::uint32_t address,
                               Clock::time_point deadline);
    Result<MacAddress> resolve(const Route& way, Clock::time_point deadline);

 private:
    explicit Netlink(UniqueFd fd) : fd_(std::move(fd)) {}

    using Visit = std::function<void(const nlmsghdr&)>;
    using VisitLink = std::function<void(const ifinfomsg&, unsigned type, std::span<const std::byte>)>;
    // Shows `visit` every attribute of the interface. kUnknown: no such interface.
    Result<> link(const std::string& name, const VisitLink& visit);
    // Sends a request and shows `visit` every message of the answer.
    Result<> request(nlmsghdr& header, const Visit& visit);
    Result<bool> receive_answer(const Visit& visit);
    // Of what is on bridges, and of these.
    Result<> read_untagged(std::vector<InterfaceInfo>& all);
    // Of whom, as the kernel takes it.
    struct Wanted;
    static Result<Wanted> wanted_host(std::uint32_t number);
    static Wanted next_hop_of(const Route& way);
    Result<> addresses_of(std::uint8_t family, std::uint32_t interface_index,
                          std::vector<std::uint32_t>& found);
    Result<std::optional<MacAddress>> neighbour(std::uint32_t interface_index, const Wanted& wanted);
    Result<MacAddress> resolve(std::uint32_t interface_index, const Wanted& wanted,
                               Clock::time_point deadline);
    Result<> probe(std::uint32_t interface_index, const Wanted& wanted);

    UniqueFd fd_;
    std::uint32_t sequence_ = 0;
};

// Tells that routes have changed, or the rules that say which tables are asked, not how; not of routes to
// link-local or multicast addresses, where no host is. Nor does the kernel tell of those of IPv4 that go with
// an interface's link, which LinkWatch does. Not thread-safe.
class RouteWatch {
 public:
    static Result<RouteWatch> open();
    // Since the last call. At first, and when the kernel had no room for all that it had to tell: yes.
    bool changed();

 private:
    explicit RouteWatch(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
    bool first_ = true;
};

// Tells that interfaces have changed: come, gone, renamed, others in state, master or MTU, by which member a
// bond sends; and that a bridge has learned or forgotten where a station is. Not thread-safe.
class LinkWatch {
 public:
    struct Changes {
        bool links = false;
        bool stations = false;
    };

    static Result<LinkWatch> open();
    // Since the last call. At first, and when the kernel had no room for all that it had to tell: both.
    Changes changed();
    // For poll(2): readable when there is something to tell.
    [[nodiscard]] int fd() const { return fd_.get(); }

 private:
    explicit LinkWatch(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
    bool first_ = true;
};

}  // namespace ask
