// SPDX-License-Identifier: Apache-2.0
#include "lib/net/frame.h"

#include <array>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

using namespace ask;

namespace {

const UdpAddresses kAddresses{
    .source_mac = {2, 0, 0, 0, 0, 1},
    .dest_mac = {2, 0, 0, 0, 0, 2},
    .source = 0xC6120102,
    .dest = 0xC6120202,
    .source_port = 49152,
    .dest_port = 4790,
};

std::vector<std::byte> make_frame(std::size_t payload) {
    std::vector<std::byte> frame(kFrameHeaderBytes + payload);
    for (std::size_t i = 0; i < payload; ++i) {
        frame[kFrameHeaderBytes + i] = static_cast<std::byte>(i * 7);
    }
    REQUIRE(write_frame_header(frame, kAddresses, payload) == frame.size());
    return frame;
}

FrameError error_of(std::span<const std::byte> frame) {
    FrameError error{};
    REQUIRE_FALSE(parse_frame(frame, &error).has_value());
    return error;
}

// Changes bytes of the IPv4 header and makes its checksum right again.
void patch_ip(std::vector<std::byte>& frame, std::size_t offset, std::initializer_list<unsigned> bytes) {
    for (const unsigned byte : bytes) {
        frame[kEthernetBytes + offset++] = static_cast<std::byte>(byte);
    }
    frame[kEthernetBytes + 10] = frame[kEthernetBytes + 11] = std::byte{0};
    const std::uint16_t sum =
        ipv4_checksum(std::span<const std::byte, kIpv4Bytes>(frame.data() + kEthernetBytes, kIpv4Bytes));
    frame[kEthernetBytes + 10] = static_cast<std::byte>(sum >> 8U);
    frame[kEthernetBytes + 11] = static_cast<std::byte>(sum & 0xffU);
}

}  // namespace

TEST_CASE("the IPv4 header checksum is RFC 1071's") {
    // The worked example of RFC 1071's usual illustration: 4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7.
    constexpr std::array<unsigned, 20> kHeader = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                                  0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};
    std::array<std::byte, 20> header{};
    for (std::size_t i = 0; i < header.size(); ++i) {
        header[i] = static_cast<std::byte>(kHeader[i]);
    }
    CHECK(ipv4_checksum(header) == 0xb861);
    header[10] = std::byte{0xb8};
    header[11] = std::byte{0x61};
    CHECK(ipv4_checksum(header) == 0);
}

TEST_CASE("a frame that was built comes apart again") {
    for (const std::size_t payload : {std::size_t{0}, std::size_t{1}, std::size_t{48}, std::size_t{1472}}) {
        CAPTURE(payload);
        const auto frame = make_frame(payload);
        const auto parsed = parse_frame(frame);
        REQUIRE(parsed.has_value());
        CHECK(parsed->addresses == kAddresses);
        CHECK_FALSE(parsed->ecn_ce);
        REQUIRE(parsed->payload.size() == payload);
        CHECK(parsed->payload.data() == frame.data() + kFrameHeaderBytes);
    }
}

TEST_CASE("a frame is ECN capable, not to be fragmented, and without a UDP checksum") {
    const auto frame = make_frame(8);
    CHECK(frame[kEthernetBytes + 1] == std::byte{0x02});
    CHECK(frame[kEthernetBytes + 6] == std::byte{0x40});
    CHECK(frame[kEthernetBytes + 26] == std::byte{0});
    CHECK(frame[kEthernetBytes + 27] == std::byte{0});
}

TEST_CASE("the way back swaps every address") {
    const UdpAddresses back = kAddresses.reversed();
    CHECK(back.source_mac == kAddresses.dest_mac);
    CHECK(back.dest == kAddresses.source);
    CHECK(back.dest_port == kAddresses.source_port);
    CHECK(back.reversed() == kAddresses);
}

TEST_CASE("congestion marks and Ethernet padding are seen") {
    auto frame = make_frame(4);
    patch_ip(frame, 1, {0x03});
    frame.resize(60);
    const auto parsed = parse_frame(frame);
    REQUIRE(parsed.has_value());
    CHECK(parsed->ecn_ce);
    CHECK(parsed->payload.size() == 4);
}

TEST_CASE("every cut of a frame is refused") {
    const auto frame = make_frame(16);
    for (std::size_t size = 0; size < frame.size(); ++size) {
        CAPTURE(size);
        // A buffer of its own, so that AddressSanitizer sees a read past the end.
        const std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
        const FrameError error = error_of(cut);
        CHECK(error == (size < kFrameHeaderBytes ? FrameError::kTooShort : FrameError::kLength));
    }
}

TEST_CASE("frames of other kinds are refused") {
    const auto good = make_frame(16);
    SUBCASE("not IPv4") {
        auto frame = good;
        frame[12] = std::byte{0x86};
        CHECK(error_of(frame) == FrameError::kNotUdp);
    }
    SUBCASE("IPv4 options") {
        auto frame = good;
        patch_ip(frame, 0, {0x46});
        CHECK(error_of(frame) == FrameError::kNotUdp);
    }
    SUBCASE("TCP") {
        auto frame = good;
        patch_ip(frame, 9, {6});
        CHECK(error_of(frame) == FrameError::kNotUdp);
    }
    SUBCASE("first fragment") {
        auto frame = good;
        patch_ip(frame, 6, {0x20, 0x00});
        CHECK(error_of(frame) == FrameError::kFragment);
    }
    SUBCASE("later fragment") {
        auto frame = good;
        patch_ip(frame, 6, {0x00, 0x10});
        CHECK(error_of(frame) == FrameError::kFragment);
    }
    SUBCASE("IPv4 length past the frame") {
        auto frame = good;
        patch_ip(frame, 2, {0x00, 0x80});
        CHECK(error_of(frame) == FrameError::kLength);
    }
    SUBCASE("IPv4 length within the headers") {
        auto frame = good;
        patch_ip(frame, 2, {0x00, 0x1b});
        CHECK(error_of(frame) == FrameError::kLength);
    }
    SUBCASE("UDP length differs") {
        auto frame = good;
        frame[kEthernetBytes + 25] = std::byte{9};
        CHECK(error_of(frame) == FrameError::kLength);
    }
    SUBCASE("a flipped bit in the IPv4 header") {
        auto frame = good;
        frame[kEthernetBytes + 12] ^= std::byte{1};
        CHECK(error_of(frame) == FrameError::kChecksum);
    }
}
