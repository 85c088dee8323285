// SPDX-License-Identifier: Apache-2.0
//
// Ethernet frames around UDP payloads, as AF_XDP sends and receives them: Ethernet, IPv4 without options,
// UDP without a checksum (the packets carry a keyed check of their own). Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/net/address.h"

namespace ask {

inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kIpv4Bytes = 20;
inline constexpr std::size_t kUdpBytes = 8;
// What goes before the UDP payload in a frame.
inline constexpr std::size_t kFrameHeaderBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;
// What goes before the UDP payload within the MTU.
inline constexpr std::size_t kPacketHeaderBytes = kIpv4Bytes + kUdpBytes;

// Everything of a frame's headers that is not fixed. Addresses and ports in host byte order.
struct UdpAddresses {
    MacAddress source_mac{};
    MacAddress dest_mac{};
    std::uint32_t source = 0;
    std::uint32_t dest = 0;
    std::uint16_t source_port = 0;
    std::uint16_t dest_port = 0;

    bool operator==(const UdpAddresses&) const = default;
    // The way back.
    [[nodiscard]] UdpAddresses reversed() const {
        return {dest_mac, source_mac, dest, source, dest_port, source_port};
    }
};

// Writes the 42 bytes of headers for a payload of `payload_bytes` that stands behind them: TTL 64, don't
// fragment, ECT(0), correct IPv4 header checksum, UDP checksum 0 (none). `frame` has room for them and the
// payload fits an IPv4 packet. Returns the frame's length.
std::size_t write_frame_header(std::span<std::byte> frame, const UdpAddresses& addresses,
                               std::size_t payload_bytes);

// Why a frame is not one that carries an ASK packet.
enum class FrameError : std::uint8_t {
    kTooShort,  // cut within a header
    kNotUdp,    // not IPv4, has options, or not UDP
    kFragment,  // part of a fragmented packet
    kLength,    // lengths of frame, IPv4 and UDP disagree
    kChecksum,  // the IPv4 header's checksum is wrong
};

// A received frame. Borrowed: lives as long as the frame.
struct UdpFrame {
    UdpAddresses addresses;
    bool ecn_ce = false;  // the network marked congestion
    std::span<const std::byte> payload;
};

// Takes a received frame apart; trailing bytes of Ethernet padding are cut off. The UDP checksum is not
// looked at: kernel senders on the same machine leave it half done.
std::optional<UdpFrame> parse_frame(std::span<const std::byte> frame, FrameError* error = nullptr);

// The Internet checksum of an IPv4 header (RFC 1071), as it stands in the packet when its own field is 0 in
// `header`; over a whole correct header: 0.
[[nodiscard]] std::uint16_t ipv4_checksum(std::span<const std::byte, kIpv4Bytes> header);

}  // namespace ask
