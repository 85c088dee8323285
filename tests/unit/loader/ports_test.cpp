// SPDX-License-Identifier: Apache-2.0
//
// Which interfaces are ports, and which of them are refused. Bonds, Open vSwitch and cards are made up here:
// the machines that run the tests need not have them.
#include <linux/if_bonding.h>

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/consts.h"
#include "lib/abi/limits.h"
#include "lib/net/bond.h"
#include "loader/port_attach.h"
#include "loader/port_check.h"
#include "loader/port_names.h"

namespace ask {
namespace {

InterfaceInfo interface(std::uint32_t index, const std::string& name, const std::string& kind = "veth",
                        std::uint32_t master = 0) {
    InterfaceInfo info;
    info.index = index;
    info.name = name;
    info.kind = kind;
    info.master = master;
    info.mtu = 1500;
    return info;
}

std::vector<InterfaceInfo> machine() {
    std::vector<InterfaceInfo> all{interface(1, "lo", ""),        interface(2, "eth0", ""),
                                   interface(3, "cali0a"),        interface(4, "cali0b", "veth", 5),
                                   interface(5, "br0", "bridge"), interface(6, "tap.1", "tun", 5)};
    all[0].loopback = true;
    return all;
}

std::string chosen(const std::vector<std::string>& names) {
    const PortChoice choice = choose_ports(names, machine());
    std::string text;
    for (const PortChoice::Named& port : choice.ports) {
        text += port.interface.name + (port.in_full ? "! " : " ");
    }
    for (const std::string& name : choice.missing) {
        text += "-" + name + " ";
    }
    return text;
}

TEST_CASE("ports are named in full or by patterns, each once, and never loopback or a bridge by a pattern") {
    CHECK(chosen({"eth0", "cali*"}) == "eth0! cali0a cali0b ");
    CHECK(chosen({"*"}) == "eth0 cali0a cali0b tap.1 ");
    CHECK(chosen({"cali*", "cali0b", "tap?1"}) == "cali0a cali0b! tap.1 ");
    CHECK(chosen({"cali[!0]*", "nope", "lo"}) == "lo! -nope ");
    CHECK(chosen({"br0", "no*"}) == "br0! ");
    CHECK(check_port_name("vnet[0-9]*").ok());
    CHECK(check_port_name("eth0.7").ok());
    CHECK_FALSE(check_port_name("a*/b").ok());
    CHECK_FALSE(check_port_name("a\xff").ok());
    CHECK_FALSE(check_port_name("a\xff*").ok());
    CHECK_FALSE(check_port_name("a-name-that-is-too-long").ok());
    CHECK_FALSE(check_port_name("").ok());
}

TEST_CASE("what has a name that is no text is no port, as nobody could be told of it") {
    const PortChoice choice =
        choose_ports({"cali*"}, {interface(3, "cali\xff"), interface(4, "cali\xc3\xbc")});
    REQUIRE(choice.ports.size() == 1);
    CHECK(choice.ports[0].interface.name == "cali\xc3\xbc");
}

std::string trouble(const InterfaceInfo& port, const std::vector<InterfaceInfo>& all,
                    const DriverInfo& driver = {}, bpf::XdpMode mode = bpf::XdpMode::kNative) {
    const auto checked = check_port(port, all, mode, driver);
    return checked.ok() ? "" : std::string(checked.error().text());
}

bool says(const std::string& text, const std::string& what) {
    INFO(text);
    return text.find(what) != std::string::npos;
}

TEST_CASE("what would lose packets without a word is refused by name, with what to do") {
    std::vector<InterfaceInfo> all = machine();
    CHECK(trouble(all[1], all).empty());
    CHECK(trouble(all[3], all).empty());
    CHECK(says(trouble(all[4], all), "port br0 is a bridge: name its ports"));

    all[4].filters_vlans = true;
    CHECK(trouble(all[3], all).empty());
    all[4].service_tags = true;
    CHECK(says(trouble(all[3], all), "port cali0b is on bridge br0, which filters VLANs by tags of 802.1ad"));
    CHECK(says(check_place(all[5], all).error().text(), "vlan_protocol 802.1Q"));
    all[4].filters_vlans = false;
    CHECK(trouble(all[3], all).empty());
    all[4].kind = "openvswitch";
    CHECK(says(trouble(all[3], all), "Open vSwitch"));
    all[4].kind = "team";
    CHECK(says(trouble(all[3], all), "is a member of br0: routes lead through that"));
    CHECK(says(trouble(all[3], all), "name br0 with xdp_mode generic"));

    all[1].mtu = ASK_MAX_MTU + 1;
    CHECK(says(trouble(all[1], all), "MTU 9217, native XDP takes up to 9216"));
    CHECK(trouble(all[1], all, {}, bpf::XdpMode::kGeneric).empty());
    all[1].mtu = 1500;

    InterfaceInfo vlan = interface(9, "eth0.7", "vlan");
    vlan.lower = 2;
    all.push_back(vlan);
    CHECK(trouble(all[1], all, {.name = "igc", .strips_tags = false}).empty());
    CHECK(says(trouble(all[1], all, {.name = "igc", .strips_tags = true}), "ethtool -K eth0 rxvlan off"));
    CHECK(trouble(all[2], all, {.name = "veth", .strips_tags = true}).empty());
}

InterfaceInfo bond(std::uint8_t mode) {
    InterfaceInfo info = interface(7, "bond0", "bond");
    info.bond_mode = mode;
    return info;
}

// `members` beside those of machine().
std::vector<InterfaceInfo> with_bond(const InterfaceInfo& bond, std::uint32_t members) {
    std::vector<InterfaceInfo> all = machine();
    all.push_back(bond);
    for (std::uint32_t i = 0; i < members; ++i) {
        all.push_back(interface(20 + i, "eth1" + std::to_string(i), "", bond.index));
    }
    return all;
}

TEST_CASE("a bond is a port where the kernel puts a native program on its members") {
    using Mode = std::uint8_t;
    for (const Mode mode : {Mode{BOND_MODE_ROUNDROBIN}, Mode{BOND_MODE_ACTIVEBACKUP}, Mode{BOND_MODE_XOR},
                            Mode{BOND_MODE_8023AD}}) {
        CHECK(trouble(bond(mode), with_bond(bond(mode), 2)).empty());
    }
    for (const Mode mode : {Mode{BOND_MODE_BROADCAST}, Mode{BOND_MODE_TLB}, Mode{BOND_MODE_ALB}}) {
        CHECK(says(trouble(bond(mode), with_bond(bond(mode), 2)), "is a bond of mode"));
        CHECK(trouble(bond(mode), with_bond(bond(mode), 2), {}, bpf::XdpMode::kGeneric).empty());
    }
    InterfaceInfo hashing = bond(BOND_MODE_8023AD);
    hashing.bond_policy = BOND_XMIT_POLICY_VLAN_SRCMAC;
    CHECK(says(trouble(hashing, with_bond(hashing, 2)), "choose another xmit_hash_policy"));
    hashing.bond_mode = BOND_MODE_ACTIVEBACKUP;
    CHECK(trouble(hashing, with_bond(hashing, 2)).empty());
    const InterfaceInfo wide = bond(BOND_MODE_XOR);
    CHECK(trouble(wide, with_bond(wide, ASK_CHANNEL_PORTS - 1)).empty());
    CHECK(says(trouble(wide, with_bond(wide, ASK_CHANNEL_PORTS)), "is a bond of 8 members"));
    CHECK(members_of(wide, with_bond(wide, 2)).size() == 2);
    CHECK(members_of(machine()[4], with_bond(wide, 2)).empty());
}

TEST_CASE("a member by which a bond would lose packets is refused by name") {
    const InterfaceInfo port = bond(BOND_MODE_ACTIVEBACKUP);
    std::vector<InterfaceInfo> all = with_bond(port, 2);
    const auto trouble_by = [&](const DriverInfo& driver) {
        const auto checked = check_member(port, all.back(), all, driver);
        return checked.ok() ? "" : std::string(checked.error().text());
    };
    CHECK(trouble_by({}).empty());
    CHECK(says(trouble_by({.name = "mlx4_en"}), "bond bond0: port eth11 has driver mlx4_en"));
    CHECK(says(trouble(all.back(), all), "take the member out of ports, and name bond0 instead"));
    CHECK(trouble_by({.name = "igc", .strips_tags = true}).empty());
    InterfaceInfo vlan = interface(9, "bond0.7", "vlan");
    vlan.lower = port.index;
    vlan.vlan = 7;
    all.insert(all.begin(), vlan);
    CHECK(says(trouble_by({.name = "igc", .strips_tags = true}),
               "port bond0 carries VLAN bond0.7, and its member eth11 takes tags off before XDP sees them"));
    CHECK(says(check_vlan(vlan, all, "bond0", {}).error().text(), "is VLAN 7 of bond0, a bond"));
    all.back().xdp_program = 12;
    CHECK(says(trouble_by({}), "whose member eth11 has XDP program 12 of its own"));
}

TEST_CASE("a pattern leaves the members of a bond out that is a port, a name does not") {
    const std::vector<InterfaceInfo> all = with_bond(bond(BOND_MODE_ACTIVEBACKUP), 2);
    CHECK(choose_ports({"eth*", "bond*"}, all).ports.size() == 2);
    CHECK(choose_ports({"eth*"}, all).ports.size() == 3);
    CHECK(choose_ports({"bond0", "eth*", "eth11"}, all).ports.size() == 3);
}

TEST_CASE("a VLAN is a port where the switch sees its tag on the port that carries it") {
    std::vector<InterfaceInfo> all = machine();
    InterfaceInfo vlan = interface(9, "eth0.7", "vlan");
    vlan.lower = 2;
    vlan.vlan = 7;
    all.push_back(vlan);
    const auto trouble_of = [&all](const InterfaceInfo& one, const std::string& carrier,
                                   const DriverInfo& driver = {}) {
        const auto checked = check_vlan(one, all, carrier, driver);
        return checked.ok() ? "" : std::string(checked.error().text());
    };
    CHECK(trouble_of(vlan, "eth0").empty());
    CHECK(says(trouble_of(vlan, ""),
               "port eth0.7 is VLAN 7 of eth0, which is no port or not attached: add eth0 to"));
    CHECK(says(trouble_of(vlan, "eth0", {.name = "igc", .strips_tags = true}), "ethtool -K eth0 rxvlan off"));
    InterfaceInfo other = vlan;
    other.lower_elsewhere = true;
    CHECK(says(trouble_of(other, "eth0"), "in another network namespace"));
    other = vlan;
    other.service_tags = true;
    CHECK(says(trouble_of(other, "eth0"), "802.1ad"));
    other = vlan;
    other.lower = 9;
    CHECK(says(trouble_of(other, "eth0.7"), "a VLAN itself"));
    other = vlan;
    other.master = 5;
    CHECK(trouble_of(other, "eth0").empty());
    all[4].filters_vlans = true;
    CHECK(trouble_of(other, "eth0").empty());
    all[4].service_tags = true;
    CHECK(says(trouble_of(other, "eth0"), "filters VLANs"));
}

TEST_CASE("of a bridge that filters VLANs a port knows which are those of frames without a tag") {
    std::vector<InterfaceInfo> all = machine();
    InterfaceInfo& bridge = all[4];
    bridge.filters_vlans = true;
    bridge.untagged = 20;
    all[3].untagged = 30;
    Port port;
    stand_on(port, all[3], bridge_of(all[3], all));
    CHECK(port.bridge == "br0");
    CHECK(port.bridge_filters);
    CHECK(port.bridge_vlan == 20);
    CHECK(port.untagged == 30);
    // They are left over from before where it no longer filters.
    bridge.filters_vlans = false;
    stand_on(port, all[3], bridge_of(all[3], all));
    CHECK(port.bridge_index == bridge.index);
    CHECK_FALSE(port.bridge_filters);
    CHECK(port.bridge_vlan == 0);
    CHECK(port.untagged == 0);
    stand_on(port, all[1], bridge_of(all[1], all));
    CHECK(port.bridge.empty());
    CHECK(port.bridge_index == 0);
}

TEST_CASE("drivers that lose what is redirected are refused by name") {
    const std::vector<InterfaceInfo> all = machine();
    const auto with = [&all](const char* driver, std::uint32_t queues) {
        return trouble(all[1], all, {.name = driver, .queues = queues, .processors = 8});
    };
    CHECK(says(with("mlx4_en", 8), "driver mlx4_en"));
    CHECK(says(with("ixgbevf", 8), "set xdp_mode to generic"));
    CHECK(says(with("mlx5_core", 4), "ethtool -L eth0 combined 8"));
    CHECK(with("mlx5_core", 8).empty());
    CHECK(with("mlx5_core", 0).empty());
    CHECK(with("virtio_net", 1).empty());
}

}  // namespace
}  // namespace ask
