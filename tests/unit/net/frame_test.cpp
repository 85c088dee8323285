// SPDX-License-Identifier: Apache-2.0
#include "lib/net/frame.h"

#include <algorithm>
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

namespace {

UdpAddresses ipv6_addresses() {
    UdpAddresses addresses = kAddresses;
    const auto source = parse_host("2001:2:0:1::2");
    const auto dest = parse_host("2001:2:0:2::2");
    REQUIRE(source.ok());
    REQUIRE(dest.ok());
    REQUIRE(set_hosts(addresses, *source, *dest).ok());
    return addresses;
}

std::vector<std::byte> make_ipv6_frame(const UdpAddresses& addresses, std::size_t payload) {
    const std::size_t header = addresses.header_bytes();
    std::vector<std::byte> frame(header + payload);
    for (std::size_t i = 0; i < payload; ++i) {
        frame[header + i] = static_cast<std::byte>(i * 7 + 3);
    }
    REQUIRE(write_frame_header(frame, addresses, payload) == frame.size());
    return frame;
}

std::uint32_t half_at(std::span<const std::byte> bytes, std::size_t at) {
    const unsigned low = at + 1 < bytes.size() ? std::to_integer<unsigned>(bytes[at + 1]) : 0;
    return std::to_integer<unsigned>(bytes[at]) << 8U | low;
}

// What whoever receives an IPv6 packet sums up (RFC 8200, section 8.1): 0xffff if nothing is wrong.
std::uint32_t received_sum(std::span<const std::byte> frame) {
    const auto ip = frame.subspan(kEthernetBytes);
    const auto udp = ip.subspan(kIpv6Bytes);
    std::uint32_t sum = 17 + static_cast<std::uint32_t>(udp.size());
    for (std::size_t at = 8; at < kIpv6Bytes; at += 2) {
        sum += half_at(ip, at);
    }
    for (std::size_t at = 0; at < udp.size(); at += 2) {
        sum += half_at(udp, at);
    }
    while (sum >> 16U != 0) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    return sum;
}

}  // namespace

TEST_CASE("an IPv6 frame that was built comes apart again, and its checksum is right") {
    const UdpAddresses addresses = ipv6_addresses();
    CHECK(addresses.header_bytes() == kMostFrameHeaderBytes);
    for (std::size_t payload = 0; payload < 70; ++payload) {
        CAPTURE(payload);
        const auto frame = make_ipv6_frame(addresses, payload);
        const auto parsed = parse_frame(frame);
        REQUIRE(parsed.has_value());
        CHECK(parsed->addresses == addresses);
        CHECK_FALSE(parsed->ecn_ce);
        REQUIRE(parsed->payload.size() == payload);
        CHECK(parsed->payload.data() == frame.data() + kMostFrameHeaderBytes);
        CHECK(received_sum(frame) == 0xffff);
    }
    for (const std::size_t payload : {1232U, 1452U, 3478U}) {
        CHECK(received_sum(make_ipv6_frame(addresses, payload)) == 0xffff);
    }
}

TEST_CASE("an IPv6 frame is ECN capable, has a flow label, and says its length") {
    const UdpAddresses addresses = ipv6_addresses();
    const auto frame = make_ipv6_frame(addresses, 8);
    const auto ip = std::span(frame).subspan(kEthernetBytes);
    CHECK(half_at(frame, 12) == 0x86dd);
    CHECK((half_at(ip, 0) >> 4U) == 0x602);
    CHECK((half_at(ip, 0) & 0xfU) + half_at(ip, 2) != 0);
    CHECK(half_at(ip, 4) == 16);
    CHECK(ip[6] == std::byte{17});
    CHECK(ip[7] == std::byte{64});
    UdpAddresses other = addresses;
    ++other.source_port;
    const auto of_other = make_ipv6_frame(other, 8);
    CHECK_FALSE(std::ranges::equal(std::span(of_other).subspan(kEthernetBytes, 4), ip.first(4)));
}

TEST_CASE("a checksum over IPv6 that comes out as 0 is written as 0xffff") {
    const UdpAddresses addresses = ipv6_addresses();
    auto frame = make_ipv6_frame(addresses, 2);
    // Adding what the checksum was makes the sum come out as all ones.
    const std::size_t at = kMostFrameHeaderBytes - 2;
    const std::uint32_t sum = half_at(frame, at) + half_at(frame, kMostFrameHeaderBytes);
    const std::uint32_t folded = (sum & 0xffffU) + (sum >> 16U);
    frame[kMostFrameHeaderBytes] = static_cast<std::byte>(folded >> 8U);
    frame[kMostFrameHeaderBytes + 1] = static_cast<std::byte>(folded & 0xffU);
    write_frame_header(frame, addresses, 2);
    CHECK(half_at(frame, at) == 0xffff);
    CHECK(received_sum(frame) == 0xffff);
}

TEST_CASE("the way back of an IPv6 frame swaps the addresses, too") {
    const UdpAddresses addresses = ipv6_addresses();
    const UdpAddresses back = addresses.reversed();
    CHECK(back.source6 == addresses.dest6);
    CHECK(back.dest6 == addresses.source6);
    CHECK(back.reversed() == addresses);
}

TEST_CASE("congestion marks and Ethernet padding of IPv6 frames are seen, and every cut is refused") {
    auto frame = make_ipv6_frame(ipv6_addresses(), 4);
    for (std::size_t size = 0; size < frame.size(); ++size) {
        CAPTURE(size);
        const std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
        const FrameError error = error_of(cut);
        CHECK(error == (size < kMostFrameHeaderBytes ? FrameError::kTooShort : FrameError::kLength));
    }
    frame[kEthernetBytes + 1] |= std::byte{0x30};
    frame.resize(80);
    const auto parsed = parse_frame(frame);
    REQUIRE(parsed.has_value());
    CHECK(parsed->ecn_ce);
    CHECK(parsed->payload.size() == 4);
}

TEST_CASE("IPv6 frames of other kinds are refused") {
    const auto good = make_ipv6_frame(ipv6_addresses(), 16);
    const auto changed = [&good](std::size_t at, unsigned byte) {
        auto frame = good;
        frame[kEthernetBytes + at] = static_cast<std::byte>(byte);
        return error_of(frame);
    };
    CHECK(changed(0, 0x45) == FrameError::kNotUdp);            // IPv4 by its version
    CHECK(changed(6, 6) == FrameError::kNotUdp);               // TCP
    CHECK(changed(6, 0) == FrameError::kNotUdp);               // hop-by-hop options
    CHECK(changed(6, 44) == FrameError::kNotUdp);              // a fragment
    CHECK(changed(5, 25) == FrameError::kLength);              // past the frame
    CHECK(changed(5, 23) == FrameError::kLength);              // not UDP's
    CHECK(changed(4, 1) == FrameError::kLength);               // far past the frame
    CHECK(changed(kIpv6Bytes + 5, 7) == FrameError::kLength);  // within UDP's header
}

TEST_CASE("an IPv4 packet does not pass for an IPv6 host's, whose number is its address") {
    UdpAddresses addresses = ipv6_addresses();
    const std::uint32_t number = addresses.source;
    for (const std::size_t offset : {12U, 16U}) {
        auto frame = make_frame(16);
        patch_ip(frame, offset, {number >> 24U, number >> 16U & 0xffU, number >> 8U & 0xffU, number & 0xffU});
        CHECK(error_of(frame) == FrameError::kAddress);
    }
}

TEST_CASE("packets go between hosts of one family whose addresses are known") {
    UdpAddresses addresses;
    const auto ipv6 = parse_host("2001:2:0:1::2");
    REQUIRE(ipv6.ok());
    const auto mixed = set_hosts(addresses, 0xC6120102, *ipv6);
    REQUIRE_FALSE(mixed.ok());
    CHECK(mixed.error().code() == Errc::kUnsupported);
    CHECK(mixed.error().text() ==
          "2001:2:0:1::2 has IPv6, and this host IPv4 (198.18.1.2): packets go between hosts of one family");
    const auto unknown = set_hosts(addresses, *ipv6, 0xf0010203);
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().code() == Errc::kUnknown);
    REQUIRE(set_hosts(addresses, 0xC6120102, 0xC6120202).ok());
    CHECK(addresses.header_bytes() == kFrameHeaderBytes);
    CHECK(packet_header_bytes(0xC6120102) == 28);
    CHECK(packet_header_bytes(*ipv6) == 48);
}
