// SPDX-License-Identifier: Apache-2.0
//
// The switch is no hole in the gateway's firewall: real frames into one port, and what comes out behind the
// other, with a rule of nftables that lets nothing be forwarded. What is registered goes on past it, and so
// do its ACKs; nothing else does.
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"
#include "lib/engine/packet.h"
#include "lib/net/frame.h"
#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"
#include "tests/support/patience.h"

namespace {

using namespace ask;
using namespace ask::test;
using Frame = std::vector<std::byte>;

constexpr unsigned kTimes = 64;
constexpr std::uint32_t kForged = 0xc6120909;  // 198.18.9.9, to which no route leads

// What is sent: a header and where it says it is from and to. Nothing follows the header.
struct Crafted {
    Header header;
    UdpAddresses addresses;
    std::optional<CheckSecret> secret;  // it is sealed with
};

// The registered flow's sender, or its receiver.
Crafted from_sender(std::uint8_t type, std::uint64_t seq) {
    Crafted packet;
    packet.header.type = type;
    packet.header.format = format_of({16, 8, 2, 4}, Op::kSum);
    packet.header.instance = kInstance;
    packet.header.channel = kChannel;
    packet.header.incarnation = kIncarnation;
    packet.header.seq = seq;
    packet.addresses = {.source_mac = {2, 0, 0, 0, 0, 1},
                        .dest_mac = {},
                        .source = kHost1,
                        .dest = kHost2,
                        .source_port = kChannel.port,
                        .dest_port = ASK_UDP_PORT};
    packet.secret = kSecret;
    return packet;
}

Crafted from_receiver(std::uint64_t seq) {
    Crafted packet = from_sender(ASK_ACK, seq);
    packet.addresses = packet.addresses.reversed();
    packet.addresses.source_mac = {2, 0, 0, 0, 0, 2};
    return packet;
}

MacAddress mac_of_port(const std::string& name) {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    name.copy(static_cast<char*>(request.ifr_name), sizeof(request.ifr_name) - 1);
    REQUIRE(::ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0);
    MacAddress mac{};
    std::memcpy(mac.data(), static_cast<const char*>(request.ifr_hwaddr.sa_data), mac.size());
    return mac;
}

// The far end of a port: sends, and sees what comes out of the switch there.
class FarEnd {
 public:
    explicit FarEnd(unsigned number)
        : switch_mac_(mac_of_port("p" + std::to_string(number))),
          socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htobe16(ETH_P_IP))) {
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_protocol = htobe16(ETH_P_IP);
        address.sll_ifindex = static_cast<int>(::if_nametoindex(("h" + std::to_string(number)).c_str()));
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    }

    void send(const Crafted& packet) const {
        Frame frame(kFrameHeaderBytes + sizeof(ask_hdr) +
                    (packet.header.type == ASK_FIN ? sizeof(ask_fin) : 0));
        const std::span<std::byte> payload = std::span(frame).subspan(kFrameHeaderBytes);
        write_header(payload, packet.header, {});
        if (packet.secret) {
            CheckKey(*packet.secret)
                .seal(payload, {packet.addresses.source_port, packet.addresses.dest_port});
        }
        UdpAddresses addresses = packet.addresses;
        addresses.dest_mac = switch_mac_;
        write_frame_header(frame, addresses, payload.size());
        REQUIRE(::send(socket_.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
    }

    // How often each seq came out, until `last` did.
    std::map<std::uint64_t, unsigned> await(std::uint64_t last) const {
        std::map<std::uint64_t, unsigned> seen;
        const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(10));
        while (!seen.contains(last)) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
            pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
            REQUIRE_MESSAGE((left.count() > 0 && ::poll(&ready, 1, static_cast<int>(left.count())) == 1),
                            "seq " << last << " does not come out");
            take(seen);
        }
        return seen;
    }

 private:
    void take(std::map<std::uint64_t, unsigned>& seen) const {
        std::array<std::byte, 2048> frame{};
        sockaddr_ll from{};
        socklen_t length = sizeof(from);
        const ssize_t size = ::recvfrom(socket_.get(), frame.data(), frame.size(), 0,
                                        reinterpret_cast<sockaddr*>(&from), &length);
        REQUIRE(size > 0);
        if (from.sll_pkttype == PACKET_OUTGOING ||
            static_cast<std::size_t>(size) < kFrameHeaderBytes + sizeof(ask_hdr)) {
            return;
        }
        ask_hdr header{};
        std::memcpy(&header, frame.data() + kFrameHeaderBytes, sizeof(header));
        ++seen[be64toh(header.seq)];
    }

    MacAddress switch_mac_;
    UniqueFd socket_;
};

// A gateway that forwards nothing of its own, with a task of one channel on it.
class Gateway {
 public:
    Gateway() {
        // Frames that come out at a far end end there; and each end takes whole batches, as a host's card
        // does.
        must_run(
            "for i in 1 2; do echo 0 > /proc/sys/net/ipv4/conf/h$i/forwarding; ethtool -K h$i gro on\n"
            "ethtool -K p$i gro off; echo 1 > /proc/sys/net/ipv4/conf/p$i/rp_filter; done\n"
            "nft 'add table inet gateway'\n"
            "nft 'add chain inet gateway forward { type filter hook forward priority 0; }'\n"
            "nft 'add rule inet gateway forward counter drop'");
        open_and_join(daemon, task_request("words", kInstance));
    }
    ~Gateway() { run_command("nft delete table inet gateway"); }
    Gateway(const Gateway&) = delete;
    Gateway& operator=(const Gateway&) = delete;

    static void open_firewall() { must_run("nft flush chain inet gateway forward"); }
    std::uint64_t count(const std::string& name) { return counter(daemon.status(), name); }

    Daemon daemon;
    FarEnd sender{1};
    FarEnd receiver{2};
};

struct Attack {
    const char* what;
    const char* counter;
    std::function<void(Crafted&)> change;
};

// What a host behind p1 tries, each a change of its own FIN: what no task of its is, or what is not where it
// should be.
const std::vector<Attack> kFromSender{
    {"a channel that is not registered", "pass_channel", [](Crafted& p) { p.header.channel.port += 1; }},
    {"the same, from an address that is forged", "pass_channel",
     [](Crafted& p) {
         p.header.channel.port += 1;
         p.addresses.source = kForged;
     }},
    {"no type of packet at all", "pass_channel",
     [](Crafted& p) {
         p.header.type = 99;
         p.header.channel.host = kForged;
     }},
    {"an ACK of nobody's, to SSH", "pass_ack",
     [](Crafted& p) {
         p.header.type = ASK_ACK;
         p.header.instance += 1;
         p.addresses.source_port = ASK_UDP_PORT;
         p.addresses.dest_port = 22;
     }},
    {"the same, from an address that is forged", "pass_ack",
     [](Crafted& p) {
         p.header.type = ASK_ACK;
         p.header.instance += 1;
         p.addresses.source = kForged;
         p.addresses.source_port = ASK_UDP_PORT;
         p.addresses.dest_port = 22;
     }},
    {"an ACK that names a registered flow, to SSH", "bad_address",
     [](Crafted& p) {
         p.header.type = ASK_ACK;
         p.addresses.source_port = ASK_UDP_PORT;
         p.addresses.dest_port = 22;
     }},
    {"a registered channel's, sealed, to a host that is not its receiver", "bad_receiver",
     [](Crafted& p) { p.addresses.dest = kHost2 + 1; }},
    {"a registered channel's, not sealed", "bad_check", [](Crafted& p) { p.secret.reset(); }},
    {"a registered channel's, from an address that is forged", "bad_address",
     [](Crafted& p) { p.addresses.source = kForged; }},
};

// What a host behind p2 tries, each a change of the receiver's ACK.
const std::vector<Attack> kFromReceiver{
    {"an ACK of nobody's", "pass_ack", [](Crafted& p) { p.header.instance += 1; }},
    {"the same, from an address that is forged", "pass_ack",
     [](Crafted& p) {
         p.header.instance += 1;
         p.addresses.source = kForged;
     }},
    {"an ACK, not sealed", "bad_check", [](Crafted& p) { p.secret.reset(); }},
    {"an ACK, sealed, from another host than the receiver", "bad_receiver",
     [](Crafted& p) { p.addresses.source = kHost2 + 1; }},
    {"an ACK, sealed, from an address that is forged", "bad_receiver",
     [](Crafted& p) { p.addresses.source = kForged; }},
    {"the sender's own packet", "bad_port",
     [](Crafted& p) {
         p.header.type = ASK_FIN;
         p.addresses = p.addresses.reversed();
     }},
};

// Each attack many times, then a packet that does go on: what came before it comes out before it.
void nothing_passes(Gateway& gateway, const std::vector<Attack>& attacks, const FarEnd& from,
                    const FarEnd& to, const std::function<Crafted(std::uint64_t)>& good) {
    std::uint64_t seq = 0;
    for (const Attack& attack : attacks) {
        CAPTURE(attack.what);
        const std::uint64_t before = gateway.count(attack.counter);
        Crafted bad = good(++seq);
        attack.change(bad);
        for (unsigned i = 0; i < kTimes; ++i) {
            from.send(bad);
        }
        from.send(good(++seq));
        const auto seen = to.await(seq);
        CHECK(!seen.contains(seq - 1));
        CHECK(gateway.count(attack.counter) - before == kTimes);
    }
}

}  // namespace

TEST_CASE("nothing but proven packets and ACKs of registered flows gets past a firewall that drops") {
    Gateway gateway;
    nothing_passes(gateway, kFromSender, gateway.sender, gateway.receiver,
                   [](std::uint64_t seq) { return from_sender(ASK_FIN, seq); });
    nothing_passes(gateway, kFromReceiver, gateway.receiver, gateway.sender, from_receiver);
}

TEST_CASE("what is not registered is forwarded if the gateway would") {
    Gateway gateway;
    Gateway::open_firewall();
    Crafted other = from_sender(ASK_FIN, 1);
    other.header.channel.port += 1;
    Crafted forged = other;
    forged.header.seq = 2;
    forged.addresses.source = kForged;
    Crafted last = other;
    last.header.seq = 3;
    for (unsigned i = 0; i < kTimes; ++i) {
        gateway.sender.send(other);
        gateway.sender.send(forged);
    }
    gateway.sender.send(last);
    const auto seen = gateway.receiver.await(3);
    CHECK(seen.at(1) == kTimes);
    CHECK(!seen.contains(2));  // rp_filter's
    Crafted ack = from_receiver(4);
    ack.header.instance += 1;
    gateway.receiver.send(ack);
    CHECK(gateway.sender.await(4).at(4) == 1);
}
