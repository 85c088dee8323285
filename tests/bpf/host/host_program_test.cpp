// SPDX-License-Identifier: Apache-2.0
//
// The steering program packet by packet, through BPF_PROG_TEST_RUN: what comes out, and which one counter
// grows.
#include "lib/xsk/host_program.h"

#include <linux/bpf.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "lib/abi/map_types.h"
#include "lib/net/frame.h"
#include "lib/xsk/xsk_socket.h"
#include "tests/support/netns.h"

using namespace ask;

namespace {

constexpr std::uint32_t kOwn = 0xC6120102;
constexpr std::uint32_t kOther = 0xC6120202;

std::vector<std::byte> make_frame(std::uint32_t dest, std::uint16_t source_port, std::uint16_t dest_port,
                                  std::size_t payload = 48) {
    std::vector<std::byte> frame(kFrameHeaderBytes + payload);
    write_frame_header(frame, {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, kOther, dest, source_port, dest_port},
                       payload);
    return frame;
}

std::uint32_t number(const char* address) {
    const auto host = parse_host(address);
    REQUIRE_MESSAGE(host.ok(), host.error().text());
    return *host;
}

std::vector<std::byte> make_ipv6_frame(const char* dest, std::uint16_t source_port, std::uint16_t dest_port,
                                       std::size_t payload = 48) {
    UdpAddresses addresses{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, 0, 0, source_port, dest_port};
    REQUIRE(set_hosts(addresses, number("2001:2:0:9::2"), number(dest)).ok());
    std::vector<std::byte> frame(addresses.header_bytes() + payload);
    write_frame_header(frame, addresses, payload);
    return frame;
}

// Without a socket the steering program drops what it would have steered.
struct Fixture {
    std::optional<XskSocket> socket;
    std::optional<HostProgram> program;

    explicit Fixture(bool with_socket, std::uint32_t own = kOwn) {
        test::need_root();
        test::enter_fresh_netns();
        auto loaded = HostProgram::load({.interface = "lo", .interface_index = 1, .own_address = own});
        REQUIRE_MESSAGE(loaded.ok(), loaded.error().text());
        program = std::move(*loaded);
        if (with_socket) {
            auto opened = XskSocket::open({.interface = "lo", .bind = BindMode::kCopy});
            REQUIRE_MESSAGE(opened.ok(), opened.error().text());
            socket = std::move(*opened);
            REQUIRE(program->add_socket(*socket).ok());
        }
    }

    // Runs one frame; checks the verdict, that the packet is as it was, and that exactly `counter` grew.
    void expect(std::vector<std::byte> frame, std::uint32_t verdict, ask_host_counter counter) {
        const auto before = *program->counters();
        std::vector<std::byte> out(frame.size() + 64);
        LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
                    .data_size_in = static_cast<__u32>(frame.size()),
                    .data_size_out = static_cast<__u32>(out.size()), .repeat = 1);
        REQUIRE(bpf_prog_test_run_opts(program->program_fd(), &options) == 0);
        CHECK(options.retval == verdict);
        out.resize(options.data_size_out);
        CHECK(out == frame);
        const auto after = *program->counters();
        for (std::size_t i = 0; i < after.size(); ++i) {
            CAPTURE(i);
            CHECK(after[i] - before[i] == (i == counter ? 1 : 0));
        }
    }
};

using Patch = std::function<void(std::vector<std::byte>&)>;

}  // namespace

TEST_CASE("DATA for us goes to the socket of its queue") {
    Fixture fixture(true);
    fixture.expect(make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT), XDP_REDIRECT, ASK_HOST_CNT_steered);
    fixture.expect(make_frame(kOwn, 1, ASK_UDP_PORT, 0), XDP_REDIRECT, ASK_HOST_CNT_steered);
}

TEST_CASE("ACKs go to the socket from the first to the last port of a channel") {
    Fixture fixture(true);
    for (const unsigned port : {ASK_CHANNEL_PORT_BASE, ASK_CHANNEL_PORT_BASE + 1,
                                ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST - 1}) {
        fixture.expect(make_frame(kOwn, ASK_UDP_PORT, static_cast<std::uint16_t>(port)), XDP_REDIRECT,
                       ASK_HOST_CNT_steered);
    }
}

TEST_CASE("a packet on a queue without a socket is dropped and counted") {
    Fixture fixture(false);
    fixture.expect(make_frame(kOwn, 50000, ASK_UDP_PORT), XDP_DROP, ASK_HOST_CNT_drop_no_socket);
    fixture.expect(make_frame(kOwn, ASK_UDP_PORT, ASK_CHANNEL_PORT_BASE), XDP_DROP,
                   ASK_HOST_CNT_drop_no_socket);
}

TEST_CASE("on a bond a packet goes to the socket of the queue of the member that it came in by") {
    Fixture fixture(false);
    auto bond = HostProgram::load(
        {.interface = "lo", .interface_index = 1, .own_address = kOwn, .queues = 2, .bond = true});
    REQUIRE_MESSAGE(bond.ok(), bond.error().text());
    fixture.program = std::move(*bond);
    auto socket = XskSocket::open({.interface = "lo", .bind = BindMode::kCopy});
    REQUIRE_MESSAGE(socket.ok(), socket.error().text());
    const auto data = make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT);
    fixture.expect(data, XDP_DROP, ASK_HOST_CNT_drop_no_socket);
    CHECK_FALSE(fixture.program->add_socket(*socket).ok());
    REQUIRE(fixture.program->add_member("another", 7).ok());
    REQUIRE(fixture.program->add_member("lo", 1).ok());
    fixture.expect(data, XDP_DROP, ASK_HOST_CNT_drop_no_socket);
    REQUIRE(fixture.program->add_socket(*socket).ok());
    fixture.expect(data, XDP_REDIRECT, ASK_HOST_CNT_steered);
    // Made again, it is another interface.
    REQUIRE(fixture.program->add_member("lo", 9).ok());
    fixture.expect(data, XDP_DROP, ASK_HOST_CNT_drop_no_socket);
    for (std::uint32_t i = 2; i < HostProgram::kMostMembers; ++i) {
        REQUIRE(fixture.program->add_member("m" + std::to_string(i), 20 + i).ok());
    }
    const auto one_more = fixture.program->add_member("late", 99);
    REQUIRE_FALSE(one_more.ok());
    CHECK(one_more.error().text().find("late is one too many") != std::string::npos);
    REQUIRE(fixture.program->add_member("lo", 1).ok());
    fixture.expect(data, XDP_REDIRECT, ASK_HOST_CNT_steered);
}

TEST_CASE(
    "a packet of ours that is longer than its first buffer is dropped and counted, one of others is not") {
    Fixture fixture(true);
    constexpr std::size_t kLong = 8972;
    fixture.expect(make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT, ASK_MAX_PAYLOAD), XDP_REDIRECT,
                   ASK_HOST_CNT_steered);
    fixture.expect(make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT, ASK_MAX_PAYLOAD + 1), XDP_DROP,
                   ASK_HOST_CNT_drop_too_long);
    fixture.expect(make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT, kLong), XDP_DROP,
                   ASK_HOST_CNT_drop_too_long);
    fixture.expect(make_frame(kOther, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT, kLong), XDP_PASS,
                   ASK_HOST_CNT_pass_foreign);
    auto tcp = make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT, kLong);
    tcp[23] = std::byte{6};
    fixture.expect(std::move(tcp), XDP_PASS, ASK_HOST_CNT_pass_foreign);
}

TEST_CASE("everything else is the stack's") {
    Fixture fixture(true);
    const auto pass = [&](std::vector<std::byte> frame) {
        fixture.expect(std::move(frame), XDP_PASS, ASK_HOST_CNT_pass_foreign);
    };
    SUBCASE("DATA and ACKs for another address") {
        pass(make_frame(kOther, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT));
        pass(make_frame(kOther, ASK_UDP_PORT, ASK_CHANNEL_PORT_BASE));
    }
    SUBCASE("other ports") {
        pass(make_frame(kOwn, 50000, 53));
        pass(make_frame(kOwn, ASK_UDP_PORT, ASK_CHANNEL_PORT_BASE - 1));
        pass(make_frame(kOwn, ASK_UDP_PORT, ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST));
        pass(make_frame(kOwn, ASK_UDP_PORT + 1, ASK_CHANNEL_PORT_BASE));
        pass(make_frame(kOwn, 50000, ASK_CHANNEL_PORT_BASE));
    }
    SUBCASE("other headers") {
        const std::vector<std::pair<std::string, Patch>> patches = {
            {"not IPv4", [](auto& frame) { frame[12] = std::byte{0x86}; }},
            {"a VLAN tag", [](auto& frame) { frame[12] = std::byte{0x81}; }},
            {"version 6", [](auto& frame) { frame[14] = std::byte{0x65}; }},
            {"IPv4 options", [](auto& frame) { frame[14] = std::byte{0x46}; }},
            {"TCP", [](auto& frame) { frame[23] = std::byte{6}; }},
            {"first fragment", [](auto& frame) { frame[20] = std::byte{0x20}; }},
            {"later fragment", [](auto& frame) { frame[21] = std::byte{0x01}; }},
        };
        for (const auto& [name, patch] : patches) {
            CAPTURE(name);
            auto frame = make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT);
            patch(frame);
            pass(std::move(frame));
        }
    }
    SUBCASE("cut within the headers") {
        // The kernel refuses test packets shorter than an Ethernet header.
        for (std::size_t size = kEthernetBytes; size < kFrameHeaderBytes; ++size) {
            CAPTURE(size);
            auto frame = make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT);
            frame.resize(size);
            pass(std::move(frame));
        }
    }
}

TEST_CASE("DATA and ACKs for an IPv6 host go to the socket of their queue") {
    Fixture fixture(true, number("2001:2:0:1::2"));
    const auto steered = [&](std::vector<std::byte> frame) {
        fixture.expect(std::move(frame), XDP_REDIRECT, ASK_HOST_CNT_steered);
    };
    steered(make_ipv6_frame("2001:2:0:1::2", ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT));
    steered(make_ipv6_frame("2001:2:0:1::2", 1, ASK_UDP_PORT, 0));
    steered(make_ipv6_frame("2001:2:0:1::2", ASK_UDP_PORT, ASK_CHANNEL_PORT_BASE));
    steered(make_ipv6_frame("2001:2:0:1::2", ASK_UDP_PORT,
                            ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST - 1));
    // As long a frame as of IPv4, which has less in front of the payload.
    constexpr std::size_t kMost = ASK_MAX_PAYLOAD + kFrameHeaderBytes - kMostFrameHeaderBytes;
    steered(make_ipv6_frame("2001:2:0:1::2", ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT, kMost));
    fixture.expect(make_ipv6_frame("2001:2:0:1::2", ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT, kMost + 1), XDP_DROP,
                   ASK_HOST_CNT_drop_too_long);
}

TEST_CASE("everything else is the stack's at an IPv6 host, too") {
    Fixture fixture(true, number("2001:2:0:1::2"));
    const auto pass = [&](std::vector<std::byte> frame) {
        fixture.expect(std::move(frame), XDP_PASS, ASK_HOST_CNT_pass_foreign);
    };
    SUBCASE("another address, each of its words") {
        for (const char* other : {"2001:3:0:1::2", "2001:2:0:2::2", "2001:2:0:1:1::2", "2001:2:0:1::3"}) {
            CAPTURE(other);
            pass(make_ipv6_frame(other, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT));
        }
    }
    SUBCASE("other ports") {
        pass(make_ipv6_frame("2001:2:0:1::2", 50000, 53));
        pass(make_ipv6_frame("2001:2:0:1::2", ASK_UDP_PORT, ASK_CHANNEL_PORT_BASE - 1));
        pass(make_ipv6_frame("2001:2:0:1::2", 50000, ASK_CHANNEL_PORT_BASE));
    }
    SUBCASE("IPv4, also for 0.0.0.0") {
        pass(make_frame(kOwn, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT));
        pass(make_frame(0, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT));
    }
    SUBCASE("extension headers, fragments, TCP, other versions") {
        for (const auto& [at, byte] : std::vector<std::pair<std::size_t, unsigned>>{
                 {20, 0}, {20, 44}, {20, 6}, {20, 60}, {14, 0x45}, {12, 0x81}}) {
            CAPTURE(byte);
            auto frame = make_ipv6_frame("2001:2:0:1::2", ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT);
            frame[at] = static_cast<std::byte>(byte);
            pass(std::move(frame));
        }
    }
    SUBCASE("cut within the headers") {
        for (std::size_t size = kEthernetBytes; size < kMostFrameHeaderBytes; ++size) {
            CAPTURE(size);
            auto frame = make_ipv6_frame("2001:2:0:1::2", ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT);
            frame.resize(size);
            pass(std::move(frame));
        }
    }
}
