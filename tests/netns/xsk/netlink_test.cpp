// SPDX-License-Identifier: Apache-2.0
#include "lib/net/netlink.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

#include "tests/netns/xsk/link.h"

using namespace ask;
using namespace ask::test;

namespace {

Netlink open_netlink() {
    auto netlink = Netlink::open();
    REQUIRE(netlink.ok());
    return std::move(*netlink);
}

Netlink::Clock::time_point soon(std::chrono::milliseconds wait = kDeadline) {
    return Netlink::Clock::now() + wait;
}

}  // namespace

TEST_CASE("an interface is described as it is in this namespace") {
    make_link(3, 1400);
    run("ip link set left address 02:00:00:00:00:07");
    Netlink netlink = open_netlink();
    const auto info = netlink.interface("left");
    REQUIRE(info.ok());
    CHECK(info->name == "left");
    CHECK(info->mtu == 1400);
    CHECK(info->rx_queues == 3);
    CHECK(info->up);
    CHECK(info->xdp_program == 0);
    CHECK(format_mac(info->mac) == "02:00:00:00:00:07");
    for (const char* missing : {"nowhere", "", "a-name-that-is-too-long"}) {
        const auto none = netlink.interface(missing);
        REQUIRE_FALSE(none.ok());
        CHECK(none.error().code() == Errc::kUnknown);
    }
}

TEST_CASE("addresses come with the primary one first") {
    make_link();
    Netlink netlink = open_netlink();
    CHECK(netlink.addresses(interface_info("left").index)->empty());
    run("ip address add 198.18.1.2/24 dev left && ip address add 198.18.1.3/24 dev left");
    run("ip address add 198.18.9.9/24 dev right");
    const auto addresses = netlink.addresses(interface_info("left").index);
    REQUIRE(addresses.ok());
    CHECK(*addresses == std::vector<std::uint32_t>{0xC6120102, 0xC6120103});
}

TEST_CASE("routes and neighbours of another host") {
    make_link();
    const PeerNetns peer;
    run("ip link set right netns " + peer.pid());
    peer.run_inside("ip link set right up");
    peer.run_inside("ip address add 198.18.1.1/24 dev right");
    run("ip address add 198.18.1.2/24 dev left && ip route add default via 198.18.1.1");
    const std::uint32_t index = interface_info("left").index;
    constexpr std::uint32_t kGateway = 0xC6120101;
    Netlink netlink = open_netlink();

    const auto near = netlink.route(kGateway);
    REQUIRE(near.ok());
    CHECK(near->next_hop == kGateway);
    CHECK(near->interface_index == index);
    CHECK_FALSE(near->local);
    const auto far = netlink.route(kRight);
    REQUIRE(far.ok());
    CHECK(far->next_hop == kGateway);
    const auto own = netlink.route(kLeft);
    REQUIRE(own.ok());
    CHECK(own->local);

    const auto unknown = netlink.neighbour(index, kGateway);
    REQUIRE_MESSAGE(unknown.ok(), unknown.error().text());
    CHECK_FALSE(unknown->has_value());
    const auto resolved = netlink.resolve(index, kGateway, soon());
    REQUIRE_MESSAGE(resolved.ok(), resolved.error().text());
    const auto known = netlink.neighbour(index, kGateway);
    REQUIRE(known.ok());
    CHECK(*known == *resolved);

    const auto silent = netlink.resolve(index, 0xC61201FE, soon(std::chrono::milliseconds(50)));
    REQUIRE_FALSE(silent.ok());
    CHECK(silent.error().code() == Errc::kDeadline);
    CHECK(silent.error().text().find("198.18.1.254") != std::string::npos);
}

TEST_CASE("a route has as many ways as next hops, and a watch tells that it has changed") {
    make_link();
    run("ip address add 198.18.1.2/24 dev left && ip address add 198.18.2.1/24 dev right");
    auto watch = RouteWatch::open();
    REQUIRE_MESSAGE(watch.ok(), watch.error().text());
    CHECK(watch->changed());  // who has just begun to watch knows nothing
    CHECK_FALSE(watch->changed());
    run("ip route add 198.18.50.0/24 nexthop via 198.18.1.1 dev left nexthop via 198.18.2.9 dev right");
    CHECK(watch->changed());
    CHECK_FALSE(watch->changed());
    const std::uint32_t left = interface_info("left").index;
    const std::uint32_t right = interface_info("right").index;
    constexpr std::uint32_t kFar = 0xC6123202;  // 198.18.50.2
    Netlink netlink = open_netlink();
    const auto both = netlink.ways(kFar);
    REQUIRE_MESSAGE(both.ok(), both.error().text());
    REQUIRE(both->size() == 2);
    CHECK(both->at(0).interface_index == left);
    CHECK(both->at(0).next_hop == 0xC6120101);
    CHECK(both->at(1).interface_index == right);
    CHECK(both->at(1).next_hop == 0xC6120209);

    run("ip rule add pref 50 to 198.18.50.0/24 lookup 77");
    CHECK(watch->changed());
    run("ip -6 rule add pref 50 to 2001:2:0:50::/64 lookup 77");
    CHECK(watch->changed());
    CHECK_FALSE(watch->changed());
    run("ip rule del pref 50 && ip -6 rule del pref 50");

    run("ip route replace 198.18.50.0/24 via 198.18.2.9 dev right");
    CHECK(watch->changed());
    const auto one = netlink.ways(kFar);
    REQUIRE_MESSAGE(one.ok(), one.error().text());
    REQUIRE(one->size() == 1);
    CHECK(one->at(0).interface_index == right);
    CHECK(one->at(0).next_hop == 0xC6120209);
    const auto near = netlink.ways(0xC6120101);
    REQUIRE_MESSAGE(near.ok(), near.error().text());
    REQUIRE(near->size() == 1);
    CHECK(near->at(0).next_hop == 0xC6120101);
    run("ip route replace unreachable 198.18.50.0/24");
    CHECK_FALSE(netlink.ways(kFar).ok());
    CHECK_FALSE(netlink.ways(0xC6130001).ok());
}

TEST_CASE("of several ways out, the one by an interface") {
    make_link();
    run("ip address add 198.18.1.2/24 dev left && ip address add 198.18.2.1/24 dev right");
    run("ip route add 198.18.50.0/24 nexthop via 198.18.1.1 dev left nexthop via 198.18.2.9 dev right");
    const std::uint32_t left = interface_info("left").index;
    const std::uint32_t right = interface_info("right").index;
    constexpr std::uint32_t kFar = 0xC6123202;  // 198.18.50.2
    Netlink netlink = open_netlink();
    const auto hop = [&](std::uint32_t dest, std::uint32_t index) {
        const auto way = netlink.way_by(dest, index);
        CHECK((!way.ok() || way->interface_index == index));
        return way.ok() ? way->next_hop : 0;
    };
    CHECK(hop(kFar, left) == 0xC6120101);
    CHECK(hop(kFar, right) == 0xC6120209);
    // What packets take that are bound to no interface hides the other from them alone.
    run("ip route add default via 198.18.1.1 metric 100 && ip route add default via 198.18.2.9 metric 200");
    CHECK(netlink.route(0xC6130001)->interface_index == left);
    CHECK(hop(0xC6130001, right) == 0xC6120209);
    // None, where the kernel would take any address for one on the link.
    run("ip route del default via 198.18.2.9 metric 200");
    CHECK(hop(0xC6130001, right) == 0);
}

TEST_CASE("all interfaces, their kinds and masters, stations of a bridge, and a watch that tells of each") {
    make_link();
    auto watch = LinkWatch::open();
    REQUIRE_MESSAGE(watch.ok(), watch.error().text());
    const auto first = watch->changed();
    CHECK(first.links);
    CHECK(first.stations);
    CHECK_FALSE(watch->changed().links);
    run("ip link add br0 type bridge && ip link set br0 up && ip link set left master br0");
    // Not every kernel has these.
    const auto may = [](const char* command) { return std::system(command) == 0; };
    const bool filters = may("ip link set br0 type bridge vlan_filtering 1 2>/dev/null");
    const bool tags = may("ip link add link right name right.7 type vlan id 7 2>/dev/null");
    CHECK(watch->changed().links);
    Netlink netlink = open_netlink();
    const auto all = netlink.interfaces();
    REQUIRE_MESSAGE(all.ok(), all.error().text());
    const auto named = [&](const std::string& name) {
        const auto at = std::ranges::find(*all, name, &InterfaceInfo::name);
        REQUIRE(at != all->end());
        return *at;
    };
    CHECK(named("lo").loopback);
    CHECK(named("br0").kind == "bridge");
    CHECK(named("br0").filters_vlans == filters);
    CHECK(named("left").kind == "veth");
    CHECK(named("left").master == named("br0").index);
    CHECK(named("left").index == interface_info("left").index);
    if (tags) {
        CHECK(named("right.7").kind == "vlan");
        CHECK(named("right.7").lower == named("right").index);
    }

    run("bridge fdb add 02:00:00:00:00:09 dev left master static");
    const auto changes = watch->changed();
    CHECK(changes.stations);
    const MacAddress station{0x02, 0, 0, 0, 0, 0x09};
    CHECK(*netlink.bridge_ports(named("br0").index, station) == std::vector{named("left").index});
    CHECK_FALSE(netlink.bridge_ports(named("right").index, station).ok());  // it is no bridge
    CHECK(netlink.bridge_ports(named("br0").index, {0x02, 0, 0, 0, 0, 0x0a})->empty());
}

TEST_CASE(
    "VLANs of a bridge that filters them: those of frames without a tag, stations in each, and word of a "
    "change") {
    make_link();
    run("ip link add br0 type bridge && ip link set br0 up && ip link set left master br0");
    if (std::system("ip link set br0 type bridge vlan_filtering 1 2>/dev/null") != 0) {
        MESSAGE("this kernel has no bridges that filter VLANs");
        return;
    }
    auto watch = LinkWatch::open();
    REQUIRE_MESSAGE(watch.ok(), watch.error().text());
    (void)watch->changed();
    Netlink netlink = open_netlink();
    const auto untagged = [&netlink](const std::string& name) {
        const auto all = netlink.interfaces();
        REQUIRE_MESSAGE(all.ok(), all.error().text());
        const auto at = std::ranges::find(*all, name, &InterfaceInfo::name);
        REQUIRE(at != all->end());
        return at->untagged;
    };
    CHECK(untagged("br0") == 1);
    CHECK(untagged("left") == 1);
    CHECK(untagged("right") == 0);
    run("bridge vlan add dev left vid 20 pvid untagged && bridge vlan add dev left vid 100-3000");
    CHECK(watch->changed().links);
    CHECK(untagged("left") == 20);
    // In, but with a tag out.
    run("bridge vlan add dev left vid 20 pvid");
    CHECK(untagged("left") == 0);
    run("bridge vlan add dev br0 vid 30 self pvid untagged");
    CHECK(watch->changed().links);
    CHECK(untagged("br0") == 30);
    run("bridge vlan del dev br0 vid 30 self");
    CHECK(untagged("br0") == 0);

    run("bridge fdb add 02:00:00:00:00:09 dev left master static vlan 20");
    const MacAddress station{0x02, 0, 0, 0, 0, 0x09};
    const std::uint32_t bridge = interface_info("br0").index;
    CHECK(*netlink.bridge_ports(bridge, station, 20) == std::vector{interface_info("left").index});
    CHECK(netlink.bridge_ports(bridge, station, 1)->empty());
}

TEST_CASE("queues to send on are those in use, not all that exist") {
    make_link(3);
    CHECK(sending_queues("left") == 3);
    run("ethtool -L left tx 2");
    CHECK(sending_queues("left") == 2);
    CHECK(sending_queues("lo") > 1000);  // the driver does not say
}

TEST_CASE("no route is an error") {
    make_link();
    Netlink netlink = open_netlink();
    const auto route = netlink.route(kRight);
    REQUIRE_FALSE(route.ok());
    CHECK(route.error().text().find("198.18.2.2") != std::string::npos);
}

namespace {

// Both ends have IPv6, and no addresses yet.
void make_ipv6_link() {
    make_link();
    run("sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.all.forwarding=1");
    for (const std::string end : {"left", "right"}) {
        const std::string conf = " net.ipv6.conf." + end;
        run("sysctl -qw" + conf + ".accept_dad=0" + conf + ".disable_ipv6=0");
    }
}

std::uint32_t number(const char* address) {
    const auto host = parse_host(address);
    REQUIRE_MESSAGE(host.ok(), host.error().text());
    return *host;
}

std::string next_hop(const Result<Route>& way) {
    return way.ok() ? format_next_hop(*way) : way.error().text();
}

// Whether an address becomes this machine's own: its route comes in the background once it has been added.
bool comes_home(const char* address) {
    Netlink netlink = open_netlink();
    const auto deadline = soon();
    for (;;) {
        const auto way = netlink.route(number(address));
        if ((way.ok() && way->local) || Netlink::Clock::now() >= deadline) {
            return way.ok() && way->local;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // between two looks
    }
}

}  // namespace

TEST_CASE("of IPv6 an interface's global addresses are a host's, after those of IPv4") {
    make_ipv6_link();
    run("ip address add fe80::7/64 dev left nodad && ip address add 2001:2:0:1::2/64 dev left nodad");
    run("ip address add 2001:2:0:1::3/64 dev left nodad preferred_lft 0");
    run("ip address add 2001:2:0:7::2/64 dev right nodad && ip address add 198.18.1.2/24 dev left");
    Netlink netlink = open_netlink();
    const auto addresses = netlink.addresses(interface_info("left").index);
    REQUIRE_MESSAGE(addresses.ok(), addresses.error().text());
    CHECK(*addresses == std::vector<std::uint32_t>{kLeft, number("2001:2:0:1::2")});
}

TEST_CASE("an address that cannot be a host's hides no other, and is named where it is the only one") {
    make_ipv6_link();
    run("ip address add 240.1.2.3/24 dev left && ip address add 240.1.3.3/24 dev right");
    run("ip address add 198.18.1.2/24 dev left");
    Netlink netlink = open_netlink();
    const auto addresses = netlink.addresses(interface_info("left").index);
    REQUIRE_MESSAGE(addresses.ok(), addresses.error().text());
    CHECK(*addresses == std::vector<std::uint32_t>{kLeft});
    const auto only = netlink.addresses(interface_info("right").index);
    REQUIRE_FALSE(only.ok());
    CHECK(only.error().text().find("240.1.3.3 is in 240.0.0.0/4") != std::string::npos);
    run("ip address add 2001:2:0:1::2/64 dev right nodad");
    const auto beside = netlink.addresses(interface_info("right").index);
    REQUIRE_MESSAGE(beside.ok(), beside.error().text());
    CHECK(*beside == std::vector<std::uint32_t>{number("2001:2:0:1::2")});
}

TEST_CASE("IPv6 routes, their ways, and a watch that tells of them") {
    make_ipv6_link();
    run("ip address add 2001:2:0:1::2/64 dev left nodad && ip address add 2001:2:0:2::1/64 dev right nodad");
    REQUIRE(comes_home("2001:2:0:1::2"));
    REQUIRE(comes_home("2001:2:0:2::1"));
    const std::uint32_t left = interface_info("left").index;
    const std::uint32_t right = interface_info("right").index;
    const std::uint32_t far = number("2001:2:0:50::2");
    Netlink netlink = open_netlink();
    const auto near = netlink.route(number("2001:2:0:1::1"));
    CHECK(next_hop(near) == "2001:2:0:1::1");
    CHECK(near->interface_index == left);
    CHECK_FALSE(near->local);
    CHECK(netlink.route(number("2001:2:0:1::2"))->local);
    CHECK_FALSE(netlink.route(far).ok());
    CHECK_FALSE(netlink.ways(far).ok());

    auto watch = RouteWatch::open();
    REQUIRE_MESSAGE(watch.ok(), watch.error().text());
    CHECK(watch->changed());
    CHECK_FALSE(watch->changed());
    run("ip route add 2001:2:0:50::/64 via fe80::1 dev left");
    CHECK(watch->changed());
    CHECK(next_hop(netlink.route(far)) == "fe80::1");
    run("ip route replace 2001:2:0:50::/64 nexthop via fe80::1 dev left nexthop via 2001:2:0:2::9 dev right");
    CHECK(watch->changed());
    const auto both = netlink.ways(far);
    REQUIRE_MESSAGE(both.ok(), both.error().text());
    REQUIRE(both->size() == 2);
    CHECK(both->at(0).interface_index != both->at(1).interface_index);
    for (const Route& way : *both) {
        CHECK(format_next_hop(way) == (way.interface_index == left ? "fe80::1" : "2001:2:0:2::9"));
    }
    CHECK(next_hop(netlink.way_by(far, right)) == "2001:2:0:2::9");
    CHECK(next_hop(netlink.way_by(far, left)) == "fe80::1");

    // An interface's own link-local and multicast routes are nobody's way.
    run("ip link add other type veth peer name end && ip link set other up && ip link set end up");
    run("ip address add fe80::9/64 dev other nodad");
    CHECK_FALSE(watch->changed());
}

TEST_CASE("an IPv6 neighbour is asked for, a link-local next hop too") {
    make_ipv6_link();
    const PeerNetns peer;
    run("ip link set right netns " + peer.pid());
    peer.run_inside("sysctl -qw net.ipv6.conf.right.accept_dad=0 net.ipv6.conf.right.disable_ipv6=0");
    peer.run_inside("ip link set right up");
    peer.run_inside("ip address add 2001:2:0:1::1/64 dev right nodad");
    peer.run_inside("ip address add fe80::1/64 dev right nodad");
    run("ip address add 2001:2:0:1::2/64 dev left nodad && ip route add default via fe80::1 dev left");
    Netlink netlink = open_netlink();
    for (const char* dest : {"2001:2:0:1::1", "2001:2:0:50::2"}) {
        CAPTURE(dest);
        const auto way = netlink.route(number(dest));
        REQUIRE_MESSAGE(way.ok(), way.error().text());
        const auto resolved = netlink.resolve(*way, soon());
        REQUIRE_MESSAGE(resolved.ok(), resolved.error().text());
        const auto known = netlink.neighbour(*way);
        REQUIRE(known.ok());
        CHECK(*known == *resolved);
    }
    const auto silent = netlink.resolve(interface_info("left").index, number("2001:2:0:1::9"),
                                        soon(std::chrono::milliseconds(50)));
    REQUIRE_FALSE(silent.ok());
    CHECK(silent.error().code() == Errc::kDeadline);
    CHECK(silent.error().text() ==
          "no answer from neighbour 2001:2:0:1::9 (NDP): is it up and on this link?");
}

TEST_CASE("of an IPv6 host whose address nobody told there is no route") {
    make_link();
    const auto route = open_netlink().route(0xf0010203);
    REQUIRE_FALSE(route.ok());
    CHECK(route.error().code() == Errc::kUnknown);
    CHECK(route.error().text() == "host number 240.1.2.3: nobody told of its address");
}
