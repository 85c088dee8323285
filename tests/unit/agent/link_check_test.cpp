// SPDX-License-Identifier: Apache-2.0
#include "agent/link_check.h"

#include <linux/if_bonding.h>

#include <set>
#include <vector>

#include <doctest/doctest.h>

namespace ask {
namespace {

std::string trouble(const std::string& kind, XdpMode mode, bool gro, std::uint32_t mtu = 1500) {
    InterfaceInfo interface;
    interface.name = "eth7";
    interface.kind = kind;
    interface.mtu = mtu;
    const auto checked = check_link(interface, mode, {.name = "", .merges = gro});
    return checked.ok() ? "" : std::string(checked.error().text());
}

TEST_CASE("an interface on which packets would be lost without a word is refused by name") {
    CHECK(trouble("", XdpMode::kNative, false).empty());
    CHECK(trouble("veth", XdpMode::kNative, false).empty());
    CHECK(trouble("veth", XdpMode::kGeneric, true).empty());
    CHECK(trouble("bond", XdpMode::kGeneric, false).empty());
    CHECK(trouble("bond", XdpMode::kNative, false).empty());
    CHECK(trouble("", XdpMode::kNative, true, 9000).empty());
    CHECK(trouble("", XdpMode::kNative, true, 9217).find("up to 9216: ip link set dev eth7 mtu 9216") !=
          std::string::npos);
    CHECK(trouble("", XdpMode::kGeneric, true, 65536).empty());
    CHECK(trouble("", XdpMode::kGeneric, true, 575).find("ASK takes from 576") != std::string::npos);
    CHECK(trouble("veth", XdpMode::kGeneric, false).find("ethtool -K eth7 gro on") != std::string::npos);
}

TEST_CASE("a bond is an interface natively where the kernel puts the program on its members") {
    InterfaceInfo bond{.name = "bond0", .mtu = 1500, .kind = "bond"};
    const auto says = [&bond](const std::string& text) {
        const auto checked = check_link(bond, XdpMode::kNative, {});
        return !checked.ok() && checked.error().text().find(text) != std::string::npos;
    };
    bond.bond_mode = BOND_MODE_ALB;
    CHECK(says("interface bond0 is a bond of mode 6: native XDP takes balance-rr"));
    CHECK(check_link(bond, XdpMode::kGeneric, {}).ok());
    bond.bond_mode = BOND_MODE_XOR;
    bond.bond_policy = BOND_XMIT_POLICY_VLAN_SRCMAC;
    CHECK(says("vlan+srcmac"));
    bond.bond_policy = BOND_XMIT_POLICY_LAYER34;
    CHECK(check_link(bond, XdpMode::kNative, {}).ok());
    bond.bond_changes_mac = true;
    CHECK(says("type bond fail_over_mac none"));
}

TEST_CASE("an agent goes on while one of its interfaces is left, and names those that are gone") {
    InterfaceInfo there;  // loopback, which every namespace has
    there.name = "lo";
    there.index = 1;
    InterfaceInfo gone;
    gone.name = "eth7";
    gone.index = 0x7fffffff;
    InterfaceInfo other = gone;
    other.name = "eth8";
    std::set<std::uint32_t> told;
    CHECK(check_left(std::vector{there}, told).ok());
    CHECK(told.empty());
    CHECK(check_left(std::vector{gone, there}, told).ok());
    CHECK(told == std::set{gone.index});
    const auto none = check_left(std::vector{gone, other}, told);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().text().find("interface eth7 and eth8 is gone") != std::string::npos);
}

}  // namespace
}  // namespace ask
