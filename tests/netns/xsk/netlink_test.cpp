// SPDX-License-Identifier: Apache-2.0
#include "lib/net/netlink.h"

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
