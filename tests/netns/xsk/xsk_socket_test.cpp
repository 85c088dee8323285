// SPDX-License-Identifier: Apache-2.0
#include "lib/xsk/xsk_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <doctest/doctest.h>

#include "lib/abi/map_types.h"
#include "lib/net/frame.h"
#include "tests/netns/xsk/link.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::size_t kPayload = 64;

UdpAddresses left_to_right(const End& left, const End& right) {
    return {left.info.mac, right.info.mac, kLeft, kRight, ASK_CHANNEL_PORT_BASE, ASK_UDP_PORT};
}

// A numbered frame; false if the socket has no room now.
bool send_numbered(XskSocket& socket, const UdpAddresses& addresses, std::uint32_t number,
                   std::size_t payload = kPayload) {
    auto frame = socket.take();
    if (!frame) {
        return false;
    }
    std::memset(frame->bytes.data() + kFrameHeaderBytes, 0x5a, payload);
    std::memcpy(frame->bytes.data() + kFrameHeaderBytes, &number, sizeof(number));
    return socket.send(*frame, write_frame_header(frame->bytes, addresses, payload));
}

std::uint32_t number_of(const UdpFrame& frame) {
    std::uint32_t number = 0;
    std::memcpy(&number, frame.payload.data(), sizeof(number));
    return number;
}

// Receives `count` numbered frames in order, answering each in place if `answer` is set.
void receive_numbered(XskSocket& socket, std::uint32_t first, std::uint32_t count, bool answer,
                      std::size_t payload = kPayload) {
    std::array<XskFrame, 16> batch;
    std::uint32_t expected = first;
    while (expected < first + count) {
        REQUIRE(wait_readable(socket));
        const std::size_t n = socket.receive(batch);
        for (std::size_t i = 0; i < n; ++i) {
            const auto frame = parse_frame(batch[i].bytes);
            REQUIRE(frame.has_value());
            REQUIRE(frame->payload.size() == payload);
            CHECK(number_of(*frame) == expected++);
            check_account(socket);
            if (answer) {
                const UdpAddresses back = frame->addresses.reversed();
                REQUIRE(socket.send(batch[i], write_frame_header(batch[i].bytes, back, payload)));
            } else {
                socket.recycle(batch[i]);
            }
        }
    }
    CHECK(socket.account().held == 0);
}

// Sends everything queued; copy mode needs a call per 32 frames.
void flush(XskSocket& socket) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (socket.kick() > 0) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
    }
}

std::uint64_t counter(const XskSocket& socket, XskCounter which) {
    return socket.counters()[static_cast<std::size_t>(which)];
}

}  // namespace

TEST_CASE("frames of one socket arrive at the other, answers come back, no frame is lost") {
    make_link();
    End left = End::make("left", kLeft);
    End right = End::make("right", kRight);
    XskSocket& sender = left.sockets[0];
    XskSocket& receiver = right.sockets[0];
    const UdpAddresses addresses = left_to_right(left, right);
    // More than all frames of a UMEM, in batches that the 256 places of a veth ring hold.
    constexpr std::uint32_t kBatch = 100;
    constexpr std::uint32_t kRounds = 60;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        for (std::uint32_t i = 0; i < kBatch; ++i) {
            REQUIRE(send_numbered(sender, addresses, round * kBatch + i));
            check_account(sender);
        }
        flush(sender);
        receive_numbered(receiver, round * kBatch, kBatch, true);
        flush(receiver);
        receive_numbered(sender, round * kBatch, kBatch, false);
    }
    flush(sender);
    flush(receiver);
    for (const XskSocket* socket : {&sender, &receiver}) {
        check_account(*socket);
        CHECK(socket->account().sending == 0);
        CHECK(counter(*socket, XskCounter::k_xsk_sent) == kBatch * kRounds);
        CHECK(counter(*socket, XskCounter::k_xsk_received) == kBatch * kRounds);
        CHECK(counter(*socket, XskCounter::k_xsk_frames_lost) == 0);
        CHECK(counter(*socket, XskCounter::k_xsk_invalid_descriptors) == 0);
        CHECK_FALSE(socket->zero_copy());
    }
    const auto counters = right.program.counters();
    REQUIRE(counters.ok());
    CHECK((*counters)[ASK_HOST_CNT_steered] == kBatch * kRounds);
}

TEST_CASE("with busy polling frames come to who asks for them, without being told") {
    make_link();
    XskOptions options;
    options.busy_poll_us = 50;
    End left = End::make("left", kLeft, 1, options);
    End right = End::make("right", kRight, 1, options);
    XskSocket& receiver = right.sockets[0];
    const auto obtained = [&receiver](int option) {
        int value = -1;
        socklen_t size = sizeof(value);
        REQUIRE(::getsockopt(receiver.fd(), SOL_SOCKET, option, &value, &size) == 0);
        return value;
    };
    CHECK(obtained(SO_PREFER_BUSY_POLL) == 1);
    CHECK(obtained(SO_BUSY_POLL) == 50);
    const UdpAddresses addresses = left_to_right(left, right);
    constexpr std::uint32_t kFrames = 100;
    for (std::uint32_t i = 0; i < kFrames; ++i) {
        REQUIRE(send_numbered(left.sockets[0], addresses, i));
    }
    flush(left.sockets[0]);
    std::array<XskFrame, 16> batch;
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    for (std::uint32_t expected = 0; expected < kFrames;) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        for (std::size_t i = 0, n = receiver.receive(batch); i < n; ++i) {
            const auto frame = parse_frame(batch[i].bytes);
            REQUIRE(frame.has_value());
            CHECK(number_of(*frame) == expected++);
            receiver.recycle(batch[i]);
        }
    }
    check_account(receiver);
}

TEST_CASE("what does not fit the transmit ring is refused, and all frames come back") {
    make_link();
    End left = End::make("left", kLeft, 1, {.rx_frames = 64, .tx_frames = 16});
    End right = End::make("right", kRight, 1, {.rx_frames = 256, .tx_frames = 16});
    const UdpAddresses addresses = left_to_right(left, right);
    XskSocket& sender = left.sockets[0];
    std::uint32_t queued = 0;
    while (send_numbered(sender, addresses, queued)) {
        ++queued;
        REQUIRE(queued <= 16);
    }
    CHECK(queued == 16);
    check_account(sender);
    flush(sender);
    receive_numbered(right.sockets[0], 0, queued, false);
    CHECK(sender.take().has_value());
}

TEST_CASE("every queue has its socket") {
    make_link(2);
    End left = End::make("left", kLeft, 2);
    End right = End::make("right", kRight, 2);
    const UdpAddresses addresses = left_to_right(left, right);
    for (std::size_t queue = 0; queue < 2; ++queue) {
        CAPTURE(queue);
        REQUIRE(send_numbered(left.sockets[queue], addresses, 7));
        flush(left.sockets[queue]);
        receive_numbered(right.sockets[queue], 7, 1, false);
    }
    std::array<XskFrame, 4> none;
    CHECK(right.sockets[0].receive(none) == 0);
    CHECK(right.sockets[1].receive(none) == 0);
}

TEST_CASE("frames are as long as the MTU allows") {
    for (const std::uint32_t mtu : {1500U, 3506U, 9000U}) {
        CAPTURE(mtu);
        make_link(1, mtu);
        const std::uint32_t frame_bytes = frame_bytes_for_mtu(mtu);
        End left = End::make("left", kLeft, 1, {.frame_bytes = frame_bytes});
        End right = End::make("right", kRight, 1, {.frame_bytes = frame_bytes});
        const std::size_t payload = std::min<std::size_t>(mtu - kPacketHeaderBytes, ASK_MAX_PAYLOAD);
        REQUIRE(send_numbered(left.sockets[0], left_to_right(left, right), 1, payload));
        flush(left.sockets[0]);
        receive_numbered(right.sockets[0], 1, 1, false, payload);
        CHECK(counter(right.sockets[0], XskCounter::k_xsk_rx_dropped) == 0);
    }
}

TEST_CASE("a frame holds its headroom, the Ethernet header and the MTU, or the longest packet of ours") {
    CHECK(frame_bytes_for_mtu(1500) == 2048);
    CHECK(frame_bytes_for_mtu(1778) == 2048);
    CHECK(frame_bytes_for_mtu(1779) == 4096);
    CHECK(frame_bytes_for_mtu(3826) == 4096);
    CHECK(frame_bytes_for_mtu(9000) == 4096);
}

TEST_CASE("a queue is one socket's at a time, and free again soon after") {
    make_link();
    const XskOptions options{.interface = "left", .busy_deadline = std::chrono::milliseconds(50)};
    auto first = XskSocket::open(options);
    REQUIRE_MESSAGE(first.ok(), first.error().text());
    const auto second = XskSocket::open(options);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code() == Errc::kExists);
    CHECK(second.error().text().find("left queue 0") != std::string::npos);
    std::optional<XskSocket> holder(std::move(*first));
    for (int i = 0; i < 5; ++i) {
        holder.reset();
        auto again = XskSocket::open({.interface = "left"});
        REQUIRE_MESSAGE(again.ok(), again.error().text());
        holder.emplace(std::move(*again));
    }
}

TEST_CASE("what cannot be bound says why") {
    make_link();
    SUBCASE("zero-copy that the driver does not have") {
        const auto socket = XskSocket::open({.interface = "left", .bind = BindMode::kZeroCopy});
        REQUIRE_FALSE(socket.ok());
        CHECK(socket.error().code() == Errc::kUnsupported);
        CHECK(socket.error().text().find("bind_mode") != std::string::npos);
    }
    SUBCASE("a queue that is not there") {
        const auto socket = XskSocket::open({.interface = "left", .queue = 9});
        REQUIRE_FALSE(socket.ok());
        CHECK(socket.error().text().find("left queue 9") != std::string::npos);
    }
    SUBCASE("an interface that is not there") {
        CHECK_FALSE(XskSocket::open({.interface = "nowhere"}).ok());
    }
}
