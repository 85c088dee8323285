// SPDX-License-Identifier: Apache-2.0
//
// Ethernet frames around UDP payloads, as AF_XDP sends and receives them: Ethernet; IPv4 without options and
// UDP without a checksum (the packets carry a keyed check of their own), or IPv6 without extension headers
// and UDP with one, which it must have there. Nothing here allocates but errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/base/result.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"

namespace ask {

inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kIpv4Bytes = 20;
inline constexpr std::size_t kIpv6Bytes = 40;
inline constexpr std::size_t kUdpBytes = 8;
// What goes before the UDP payload in a frame of IPv4's.
inline constexpr std::size_t kFrameHeaderBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;
// What goes before the UDP payload within the MTU, with IPv4.
inline constexpr std::size_t kPacketHeaderBytes = kIpv4Bytes + kUdpBytes;
// In a frame of either family's, at most.
inline constexpr std::size_t kMostFrameHeaderBytes = kEthernetBytes + kIpv6Bytes + kUdpBytes;

// What goes before the UDP payload within the MTU, in packets between hosts of this one's family.
[[nodiscard]] constexpr std::size_t packet_header_bytes(std::uint32_t host) {
    return (is_ipv6_number(host) ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes;
}

// Everything of a frame's headers that is not fixed. Ports in host byte order.
struct UdpAddresses {
    MacAddress source_mac{};
    MacAddress dest_mac{};
    std::uint32_t source = 0;  // numbers (lib/net/host_book.h), both of one family
    std::uint32_t dest = 0;
    std::uint16_t source_port = 0;
    std::uint16_t dest_port = 0;
    Ipv6Address source6{};  // behind the numbers of IPv6 hosts
    Ipv6Address dest6{};

    bool operator==(const UdpAddresses&) const = default;
    [[nodiscard]] bool ipv6() const { return is_ipv6_number(dest); }
    // What goes before the UDP payload in their frames.
    [[nodiscard]] std::size_t header_bytes() const { return kEthernetBytes + packet_header_bytes(dest); }
    // The way back.
    [[nodiscard]] UdpAddresses reversed() const {
        return {dest_mac, source_mac, dest, source, dest_port, source_port, dest6, source6};
    }
};

// Sets source and dest, from the book where they are IPv6 hosts: once a path, not once a packet.
// kUnsupported: they are of two families. kUnknown: the book does not know one of them.
Result<> set_hosts(UdpAddresses& addresses, std::uint32_t source, std::uint32_t dest);

// Writes the addresses.header_bytes() of headers for a payload of `payload_bytes` that stands behind them
// already: TTL or hop limit 64, ECT(0). Over IPv4: don't fragment, correct header checksum, UDP checksum 0
// (none). Over IPv6: a flow label by ports, UDP checksum. `frame` has room for them and the payload fits a
// packet. Returns the frame's length.
std::size_t write_frame_header(std::span<std::byte> frame, const UdpAddresses& addresses,
                               std::size_t payload_bytes);

// Why a frame is not one that carries an ASK packet.
enum class FrameError : std::uint8_t {
    kTooShort,  // cut within a header
    kNotUdp,    // neither IPv4 nor IPv6, has options or extension headers, or not UDP
    kFragment,  // part of a fragmented packet
    kLength,    // lengths of frame, IP and UDP disagree
    kChecksum,  // the IPv4 header's checksum is wrong
    kAddress,   // an IPv4 address that would be an IPv6 host's number
};

// A received frame. Borrowed: lives as long as the frame.
struct UdpFrame {
    UdpAddresses addresses;
    bool ecn_ce = false;  // the network marked congestion
    std::span<const std::byte> payload;
};

// Takes a received frame apart; trailing bytes of Ethernet padding are cut off. The UDP checksum is not
// looked at: kernel senders on the same machine leave it half done. Numbers of IPv6 hosts are computed, not
// looked up: a host that nobody entered has one, too.
std::optional<UdpFrame> parse_frame(std::span<const std::byte> frame, FrameError* error = nullptr);

// The Internet checksum of an IPv4 header (RFC 1071), as it stands in the packet when its own field is 0 in
// `header`; over a whole correct header: 0.
[[nodiscard]] std::uint16_t ipv4_checksum(std::span<const std::byte, kIpv4Bytes> header);

// The UDP checksum over IPv6 (RFC 8200, section 8.1) of a packet that begins with its IPv6 header, whatever
// stands in its own field; never 0.
[[nodiscard]] std::uint16_t ipv6_udp_checksum(std::span<const std::byte> packet);

}  // namespace ask
