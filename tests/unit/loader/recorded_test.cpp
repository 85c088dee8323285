// SPDX-License-Identifier: Apache-2.0
//
// What kernels and drivers were recorded to say, read and judged: netlink's answers of several kernels
// (tests/unit/net/recorded), and ethtool's of cards, as people have published them. None of these cards was
// tried.
#include <linux/ethtool.h>
#include <linux/if_bonding.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/net/bond.h"
#include "lib/net/driver.h"
#include "lib/net/netlink.h"
#include "loader/port_check.h"

namespace ask {
namespace {

using Answer = std::vector<std::string>;  // messages

// The last one, 02:00:00:00:HIGH:LOW.
MacAddress made_mac(std::uint8_t high, std::uint8_t low) {
    return {2, 0, 0, 0, high, low};
}

struct Recording {
    std::string kernel;
    std::map<std::string, Answer> answers;  // by what was asked
};

std::string bytes_of(std::string_view hex) {
    std::string bytes;
    for (; hex.size() >= 2; hex.remove_prefix(2)) {
        std::uint8_t byte = 0;
        std::from_chars(hex.data(), hex.data() + 2, byte, 16);
        bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
}

std::vector<Recording> recordings() {
    std::vector<Recording> all;
    for (const auto& entry : std::filesystem::directory_iterator(ASK_RECORDED)) {
        if (entry.path().extension() != ".netlink") {
            continue;
        }
        Recording& one = all.emplace_back();
        one.kernel = entry.path().stem();
        std::ifstream file(entry.path());
        for (std::string what, hex; file >> what >> hex;) {
            if (what == "#") {
                std::getline(file, hex);
            } else {
                one.answers[what].push_back(bytes_of(hex));
            }
        }
    }
    return all;
}

void send_message(int fd, std::string message, std::uint32_t sequence) {
    std::memcpy(message.data() + offsetof(nlmsghdr, nlmsg_seq), &sequence, sizeof(sequence));
    REQUIRE(::send(fd, message.data(), message.size(), 0) == static_cast<ssize_t>(message.size()));
}

// A kernel that answers the first question as recorded under the first name, and so on.
class Replay {
 public:
    Replay(const Recording& recording, const std::vector<std::string>& names) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
        asking_ = UniqueFd(ends[0]);
        answering_ = UniqueFd(ends[1]);
        std::uint32_t sequence = 0;
        for (const std::string& name : names) {
            ++sequence;
            for (const std::string& message : recording.answers.at(name)) {
                send_message(answering_.get(), message, sequence);
            }
            nlmsghdr done{};
            done.nlmsg_len = sizeof(done);
            done.nlmsg_type = NLMSG_DONE;
            done.nlmsg_flags = NLM_F_MULTI;
            send_message(answering_.get(), {reinterpret_cast<const char*>(&done), sizeof(done)}, sequence);
        }
    }
    Netlink netlink() { return Netlink::over(std::move(asking_)); }

 private:
    UniqueFd asking_;
    UniqueFd answering_;
};

class Links {
 public:
    explicit Links(const Recording& recording) {
        Replay replay(recording, {"links", "vlans"});
        auto all = replay.netlink().interfaces();
        REQUIRE(all.ok());
        all_ = *std::move(all);
    }
    [[nodiscard]] const std::vector<InterfaceInfo>& all() const { return all_; }
    [[nodiscard]] bool has(const std::string& name) const {
        return std::ranges::find(all_, name, &InterfaceInfo::name) != all_.end();
    }
    [[nodiscard]] const InterfaceInfo& at(const std::string& name) const {
        const auto found = std::ranges::find(all_, name, &InterfaceInfo::name);
        REQUIRE(found != all_.end());
        return *found;
    }
    [[nodiscard]] bool filters() const { return at("br0").filters_vlans; }

 private:
    std::vector<InterfaceInfo> all_;
};

// What is said of a port; empty: it is one.
std::string port_trouble(const Links& links, const std::string& name, const DriverInfo& driver = {}) {
    const auto checked = check_port(links.at(name), links.all(), bpf::XdpMode::kNative, driver);
    return checked.ok() ? "" : std::string(checked.error().text());
}

std::string vlan_trouble(const Links& links, const std::string& name, const DriverInfo& driver = {}) {
    const auto checked = check_vlan(links.at(name), links.all(), "a0", driver);
    return checked.ok() ? "" : std::string(checked.error().text());
}

bool tells(const std::string& text, const std::string& what) {
    INFO(text);
    return text.find(what) != std::string::npos;
}

// These are a distribution's, and have all of it, netkit from 6.12 on.
bool is_whole(const Recording& recording) {
    return recording.kernel.starts_with("6.1.") || recording.kernel.starts_with("6.12.");
}

void check_every_kernels(const Links& links) {
    CHECK(links.at("lo").loopback);
    const InterfaceInfo& veth = links.at("a0");
    CHECK(veth.kind == "veth");
    CHECK(veth.mtu == 9000);
    CHECK(veth.mac == made_mac(0, 0xa0));
    CHECK(veth.lower == links.at("a1").index);
    CHECK_FALSE(veth.lower_elsewhere);
    CHECK(links.at("br0").kind == "bridge");
    CHECK(links.at("c0").master == links.at("br0").index);
    CHECK(links.at("c0").up);
    CHECK(links.at("c1").master == links.at("br1").index);
    CHECK(links.at("vxlan0").kind == "vxlan");
    CHECK(links.at("macvlan0").kind == "macvlan");
    CHECK(links.at("macvlan0").lower == links.at("a1").index);
    CHECK(port_trouble(links, "c0").empty());
    CHECK(tells(port_trouble(links, "br0"), "port br0 is a bridge"));
}

void check_filtering(const Links& links) {
    CHECK_FALSE(links.at("br0").service_tags);
    CHECK(links.at("br0").untagged == 1);
    CHECK(links.at("c0").untagged == 20);
    CHECK(links.at("br1").service_tags);
    CHECK(tells(port_trouble(links, "c1"), "is on bridge br1, which filters VLANs by tags of 802.1ad"));
}

void check_vlans(const Links& links) {
    const InterfaceInfo& vlan = links.at("a0.7");
    CHECK(vlan.kind == "vlan");
    CHECK(vlan.vlan == 7);
    CHECK(vlan.lower == links.at("a0").index);
    CHECK_FALSE(vlan.service_tags);
    CHECK(links.at("ad").service_tags);
    CHECK(vlan_trouble(links, "a0.7").empty());
    CHECK(tells(vlan_trouble(links, "ad"), "802.1ad"));
    const DriverInfo stripping{.name = "veth", .strips_tags = true};
    CHECK(tells(vlan_trouble(links, "a0.7", stripping), "ethtool -K a0 rxvlan off"));
    CHECK(tells(port_trouble(links, "a0", stripping), "port a0 carries VLAN a"));
}

void check_bonds(const Links& links) {
    CHECK(links.at("bond0").kind == "bond");
    CHECK(links.at("bond0").bond_mode == BOND_MODE_8023AD);
    CHECK(links.at("bond0").bond_policy == BOND_XMIT_POLICY_LAYER34);
    CHECK_FALSE(links.at("bond0").bond_changes_mac);
    CHECK(members_of(links.at("bond0"), links.all()).size() == 1);
    CHECK(links.at("bond2").bond_changes_mac);
    CHECK(port_trouble(links, "bond0").empty());
    CHECK(tells(port_trouble(links, "bond1"), "is a bond of mode 6"));
    CHECK(tells(port_trouble(links, "bond3"), "choose another xmit_hash_policy"));
    CHECK(tells(port_trouble(links, "d0"), "is a member of bond0"));
}

TEST_CASE("interfaces as kernels tell of them") {
    const auto all = recordings();
    REQUIRE(all.size() >= 3);
    for (const Recording& recording : all) {
        CAPTURE(recording.kernel);
        const Links links(recording);
        check_every_kernels(links);
        if (is_whole(recording) || links.filters()) {
            check_filtering(links);
        }
        if (is_whole(recording) || links.has("a0.7")) {
            check_vlans(links);
        }
        if (is_whole(recording) || links.has("bond0")) {
            check_bonds(links);
        }
        if (links.has("tap0")) {
            CHECK(links.at("tap0").kind == "tun");
            CHECK(port_trouble(links, "tap0").empty());
        }
        if (links.has("netkit0")) {
            CHECK(links.at("netkit0").kind == "netkit");
        }
    }
}

// What ethtool printed of a card: -i, "Current hardware settings" of -l, and -g.
struct Card {
    std::string driver;
    std::uint32_t combined = 0;
    std::uint32_t transmit = 0;
    std::uint32_t ring = 0;
    std::uint32_t ring_most = 0;
};

// As the kernel answers for it.
DriverInfo read_card(const Card& card, std::uint32_t processors) {
    DriverInfo info = read_driver([&card](void* command) {
        std::uint32_t asked = 0;
        std::memcpy(&asked, command, sizeof(asked));
        if (asked == ETHTOOL_GDRVINFO) {
            auto* const answer = static_cast<ethtool_drvinfo*>(command);
            card.driver.copy(answer->driver, sizeof(answer->driver) - 1);
            return true;
        }
        if (asked == ETHTOOL_GCHANNELS && card.combined + card.transmit != 0) {
            auto* const answer = static_cast<ethtool_channels*>(command);
            answer->combined_count = card.combined;
            answer->tx_count = card.transmit;
            return true;
        }
        if (asked == ETHTOOL_GRINGPARAM && card.ring != 0) {
            auto* const answer = static_cast<ethtool_ringparam*>(command);
            answer->rx_pending = card.ring;
            answer->rx_max_pending = card.ring_most;
            return true;
        }
        return false;
    });
    info.processors = processors;
    return info;
}

std::string card_trouble(const Card& card, std::uint32_t processors) {
    InterfaceInfo interface;
    interface.index = 2;
    interface.name = "eth0";
    interface.mtu = 1500;
    const auto checked =
        check_port(interface, {interface}, bpf::XdpMode::kNative, read_card(card, processors));
    return checked.ok() ? "" : std::string(checked.error().text());
}

TEST_CASE("cards whose drivers lose what is redirected, by what ethtool printed of them") {
    // Release notes of Mellanox' driver for ConnectX EN, 1.5.10; the kernel's own says it in one word
    // (isc-projects/ethq, issue 21).
    CHECK(
        tells(card_trouble({.driver = "mlx4_en (MT_0DD0120009_CX3)"}, 8), "has driver mlx4_en, which sends"));
    CHECK(tells(card_trouble({.driver = "mlx4_en"}, 8), "has driver mlx4_en, which sends"));
    // Amazon's pages on enhanced networking.
    CHECK(tells(card_trouble({.driver = "ixgbevf"}, 8), "has driver ixgbevf, which sends"));
    // Netronome's guide to Agilio cards.
    CHECK(tells(card_trouble({.driver = "nfp"}, 8), "has driver nfp, which sends"));
    // intel/ethernet-linux-i40e, pull request 19: four queues, six processors; what two of these redirected
    // was dropped.
    CHECK(
        tells(card_trouble({.driver = "i40e", .combined = 4}, 6),
              "has 4 queues, and driver i40e drops what the other of 6 processors redirect to it: ethtool -L "
              "eth0 combined 6"));
    CHECK(card_trouble({.driver = "i40e", .combined = 6}, 6).empty());
    // intel/ethernet-linux-ice, issue 45: cards that take one number of queues, 32.
    CHECK(card_trouble({.driver = "ice", .combined = 32}, 32).empty());
    CHECK(tells(card_trouble({.driver = "ice", .combined = 32}, 64), "ethtool -L eth0 combined 64"));
}

TEST_CASE("cards that are ports, by what ethtool printed of them") {
    // isc-projects/ethq, issue 20: nothing is said of its queues.
    CHECK(card_trouble({.driver = "mlx5_core"}, 8).empty());
    // amzn/amzn-drivers, issue 240, and xdp-project/xdp-tutorial, issue 163: such drivers refuse a program
    // themselves where too few queues are left.
    CHECK(card_trouble({.driver = "ena", .combined = 8}, 8).empty());
    CHECK(card_trouble({.driver = "virtio_net", .combined = 4}, 8).empty());
    // firedancer-io/firedancer, issue 1427: queues to receive on, and one to send on.
    CHECK(read_card({.driver = "", .transmit = 1}, 8).queues == 1);
    // nispor/nispor, pull request 127: igb.
    const DriverInfo igb = read_card({.driver = "igb", .ring = 256, .ring_most = 4096}, 8);
    CHECK(igb.receive_ring == 256);
    CHECK(igb.receive_ring_most == 4096);
    CHECK_FALSE(igb.strips_tags);
}

}  // namespace
}  // namespace ask
