// SPDX-License-Identifier: Apache-2.0
#include "lib/net/frame.h"

#include <cstring>

namespace ask {
namespace {

constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr std::byte kVersionNoOptions{0x45};
constexpr std::byte kEct0{0x02};
constexpr std::byte kEcnMask{0x03};
constexpr std::byte kEcnCe{0x03};
constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::uint16_t kFragmentMask = 0x3fff;  // more fragments, and the offset
constexpr std::byte kTtl{64};
constexpr std::byte kProtocolUdp{17};

// Offsets within the IPv4 header.
constexpr std::size_t kTos = 1;
constexpr std::size_t kTotalLength = 2;
constexpr std::size_t kIdent = 4;
constexpr std::size_t kFragment = 6;
constexpr std::size_t kTtlAt = 8;
constexpr std::size_t kProtocol = 9;
constexpr std::size_t kChecksumAt = 10;
constexpr std::size_t kSource = 12;
constexpr std::size_t kDest = 16;

// Offsets within the IPv6 header.
constexpr std::size_t kFlow6 = 0;  // version, traffic class, flow label
constexpr std::size_t kPayloadLength6 = 4;
constexpr std::size_t kNextHeader6 = 6;
constexpr std::size_t kHopLimit6 = 7;
constexpr std::size_t kSource6 = 8;
constexpr std::size_t kDest6 = 24;
// Offset of the sum within the UDP header.
constexpr std::size_t kUdpChecksumAt = 6;

void put16(std::byte* at, std::uint16_t value) {
    at[0] = static_cast<std::byte>(value >> 8U);
    at[1] = static_cast<std::byte>(value & 0xffU);
}

void put32(std::byte* at, std::uint32_t value) {
    put16(at, static_cast<std::uint16_t>(value >> 16U));
    put16(at + 2, static_cast<std::uint16_t>(value & 0xffffU));
}

std::uint16_t get16(const std::byte* at) {
    return static_cast<std::uint16_t>((std::to_integer<unsigned>(at[0]) << 8U) |
                                      std::to_integer<unsigned>(at[1]));
}

std::uint32_t get32(const std::byte* at) {
    return (std::uint32_t{get16(at)} << 16U) | get16(at + 2);
}

std::optional<UdpFrame> fail(FrameError* error, FrameError what) {
    if (error != nullptr) {
        *error = what;
    }
    return std::nullopt;
}

// Folded to 16 bits, as the bytes lie in memory: the sum of words in network order, with its bytes swapped on
// a little-endian machine. 32 bits at a time: 2^32 of them do not overflow.
std::uint16_t sum_of(std::span<const std::byte> bytes) {
    std::uint64_t sum = 0;
    std::size_t at = 0;
    for (; at + sizeof(std::uint32_t) <= bytes.size(); at += sizeof(std::uint32_t)) {
        std::uint32_t word = 0;
        std::memcpy(&word, bytes.data() + at, sizeof(word));
        sum += word;
    }
    std::uint32_t rest = 0;
    if (at < bytes.size()) {
        std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
    }
    sum += rest;
    while (sum >> 16U != 0) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    return static_cast<std::uint16_t>(sum);
}

void write_ethernet(std::byte* ethernet, const UdpAddresses& addresses, std::uint16_t type) {
    std::memcpy(ethernet, addresses.dest_mac.data(), addresses.dest_mac.size());
    std::memcpy(ethernet + 6, addresses.source_mac.data(), addresses.source_mac.size());
    put16(ethernet + 12, type);
}

void write_udp(std::byte* udp, const UdpAddresses& addresses, std::size_t payload_bytes) {
    put16(udp, addresses.source_port);
    put16(udp + 2, addresses.dest_port);
    put16(udp + 4, static_cast<std::uint16_t>(kUdpBytes + payload_bytes));
    put16(udp + kUdpChecksumAt, 0);
}

// Routers that spread flows by label keep a channel's packets together, and channels apart.
std::uint32_t flow_label(const UdpAddresses& addresses) {
    constexpr std::uint32_t kSpread = 0x9e3779b1;
    const std::uint32_t ports = std::uint32_t{addresses.source_port} << 16U | addresses.dest_port;
    return ports * kSpread >> 12U;
}

// Apart, so that what it needs on the stack costs IPv4 nothing.
[[gnu::noinline]] std::size_t write_ipv6_header(std::byte* ethernet, const UdpAddresses& addresses,
                                                std::size_t payload_bytes) {
    constexpr std::uint32_t kVersionAndEct0 = 6U << 28U | 2U << 20U;
    std::byte* const ip = ethernet + kEthernetBytes;
    write_ethernet(ethernet, addresses, kEtherTypeIpv6);
    put32(ip + kFlow6, kVersionAndEct0 | flow_label(addresses));
    put16(ip + kPayloadLength6, static_cast<std::uint16_t>(kUdpBytes + payload_bytes));
    ip[kNextHeader6] = kProtocolUdp;
    ip[kHopLimit6] = kTtl;
    std::memcpy(ip + kSource6, addresses.source6.data(), addresses.source6.size());
    std::memcpy(ip + kDest6, addresses.dest6.data(), addresses.dest6.size());
    write_udp(ip + kIpv6Bytes, addresses, payload_bytes);
    const std::size_t bytes = kIpv6Bytes + kUdpBytes + payload_bytes;
    put16(ip + kIpv6Bytes + kUdpChecksumAt, ipv6_udp_checksum({ip, bytes}));
    return kEthernetBytes + bytes;
}

void read_ethernet(const std::byte* ethernet, UdpAddresses& addresses) {
    std::memcpy(addresses.dest_mac.data(), ethernet, addresses.dest_mac.size());
    std::memcpy(addresses.source_mac.data(), ethernet + 6, addresses.source_mac.size());
}

void read_ports(const std::byte* udp, UdpAddresses& addresses) {
    addresses.source_port = get16(udp);
    addresses.dest_port = get16(udp + 2);
}

// A fragment has a header of its own in between, as other extensions do.
[[gnu::noinline]] std::optional<UdpFrame> parse_ipv6_frame(std::span<const std::byte> frame,
                                                           FrameError* error) {
    constexpr std::byte kVersionMask{0xf0};
    constexpr std::byte kVersion6{0x60};
    const std::byte* const ip = frame.data() + kEthernetBytes;
    if ((ip[kFlow6] & kVersionMask) != kVersion6 || ip[kNextHeader6] != kProtocolUdp) {
        return fail(error, FrameError::kNotUdp);
    }
    if (frame.size() < kMostFrameHeaderBytes) {
        return fail(error, FrameError::kTooShort);
    }
    const std::byte* const udp = ip + kIpv6Bytes;
    const std::size_t udp_length = get16(udp + 4);
    if (udp_length < kUdpBytes || udp_length != get16(ip + kPayloadLength6) ||
        udp_length > frame.size() - kEthernetBytes - kIpv6Bytes) {
        return fail(error, FrameError::kLength);
    }
    UdpFrame parsed;
    UdpAddresses& addresses = parsed.addresses;
    read_ethernet(frame.data(), addresses);
    std::memcpy(addresses.source6.data(), ip + kSource6, addresses.source6.size());
    std::memcpy(addresses.dest6.data(), ip + kDest6, addresses.dest6.size());
    addresses.source = number_of(addresses.source6);
    addresses.dest = number_of(addresses.dest6);
    read_ports(udp, addresses);
    parsed.ecn_ce = (ip[kFlow6 + 1] >> 4U & kEcnMask) == kEcnCe;
    parsed.payload = frame.subspan(kMostFrameHeaderBytes, udp_length - kUdpBytes);
    return parsed;
}

}  // namespace

Result<> set_hosts(UdpAddresses& addresses, std::uint32_t source, std::uint32_t dest) {
    if (is_ipv6_number(source) != is_ipv6_number(dest)) {
        const auto family = [](std::uint32_t host) { return is_ipv6_number(host) ? "IPv6" : "IPv4"; };
        return Error(Errc::kUnsupported, format_host(dest) + " has " + family(dest) + ", and this host " +
                                             family(source) + " (" + format_host(source) +
                                             "): packets go between hosts of one family");
    }
    addresses.source = source;
    addresses.dest = dest;
    if (!is_ipv6_number(dest)) {
        return {};
    }
    const auto source6 = ipv6_of(source);
    const auto dest6 = ipv6_of(dest);
    if (!source6 || !dest6) {
        return Error(Errc::kUnknown, format_host(source6 ? dest : source) + ": nobody told of its address");
    }
    addresses.source6 = *source6;
    addresses.dest6 = *dest6;
    return {};
}

std::uint16_t ipv6_udp_checksum(std::span<const std::byte> packet) {
    const std::span<const std::byte> udp = packet.subspan(kIpv6Bytes);
    std::byte pseudo[8];  // length and next header, as words of 32 bits
    put32(pseudo, static_cast<std::uint32_t>(udp.size()));
    put32(pseudo + 4, std::to_integer<std::uint32_t>(kProtocolUdp));
    std::uint32_t sum = sum_of(packet.subspan(kSource6, 2 * sizeof(Ipv6Address)));
    sum += sum_of(pseudo);
    sum += sum_of(udp.first(kUdpChecksumAt));
    sum += sum_of(udp.subspan(kUdpBytes));
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    const auto folded = static_cast<std::uint16_t>(~sum & 0xffffU);
    std::byte as_it_lies[2];
    std::memcpy(as_it_lies, &folded, sizeof(folded));
    const std::uint16_t checksum = get16(as_it_lies);
    return checksum == 0 ? std::uint16_t{0xffff} : checksum;
}

std::uint16_t ipv4_checksum(std::span<const std::byte, kIpv4Bytes> header) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < kIpv4Bytes; i += 2) {
        sum += get16(header.data() + i);
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    return static_cast<std::uint16_t>(~sum & 0xffffU);
}

std::size_t write_frame_header(std::span<std::byte> frame, const UdpAddresses& addresses,
                               std::size_t payload_bytes) {
    std::byte* const ethernet = frame.data();
    if (addresses.ipv6()) [[unlikely]] {
        return write_ipv6_header(ethernet, addresses, payload_bytes);
    }
    std::byte* const ip = ethernet + kEthernetBytes;
    write_ethernet(ethernet, addresses, kEtherTypeIpv4);
    ip[0] = kVersionNoOptions;
    ip[kTos] = kEct0;
    put16(ip + kTotalLength, static_cast<std::uint16_t>(kPacketHeaderBytes + payload_bytes));
    put16(ip + kIdent, 0);
    put16(ip + kFragment, kDontFragment);
    ip[kTtlAt] = kTtl;
    ip[kProtocol] = kProtocolUdp;
    put16(ip + kChecksumAt, 0);
    put32(ip + kSource, addresses.source);
    put32(ip + kDest, addresses.dest);
    put16(ip + kChecksumAt, ipv4_checksum(std::span<const std::byte, kIpv4Bytes>(ip, kIpv4Bytes)));
    write_udp(ip + kIpv4Bytes, addresses, payload_bytes);
    return kFrameHeaderBytes + payload_bytes;
}

std::optional<UdpFrame> parse_frame(std::span<const std::byte> frame, FrameError* error) {
    if (frame.size() < kEthernetBytes + kIpv4Bytes) {
        return fail(error, FrameError::kTooShort);
    }
    const std::byte* const ethernet = frame.data();
    const std::byte* const ip = ethernet + kEthernetBytes;
    const std::uint16_t type = get16(ethernet + 12);
    if (type == kEtherTypeIpv6) {
        return parse_ipv6_frame(frame, error);
    }
    if (type != kEtherTypeIpv4 || ip[0] != kVersionNoOptions || ip[kProtocol] != kProtocolUdp) {
        return fail(error, FrameError::kNotUdp);
    }
    if (frame.size() < kFrameHeaderBytes) {
        return fail(error, FrameError::kTooShort);
    }
    if ((get16(ip + kFragment) & kFragmentMask) != 0) {
        return fail(error, FrameError::kFragment);
    }
    const std::byte* const udp = ip + kIpv4Bytes;
    const std::size_t total = get16(ip + kTotalLength);
    const std::size_t udp_length = get16(udp + 4);
    if (total < kPacketHeaderBytes || total > frame.size() - kEthernetBytes ||
        udp_length != total - kIpv4Bytes) {
        return fail(error, FrameError::kLength);
    }
    if (ipv4_checksum(std::span<const std::byte, kIpv4Bytes>(ip, kIpv4Bytes)) != 0) {
        return fail(error, FrameError::kChecksum);
    }
    UdpFrame parsed;
    read_ethernet(ethernet, parsed.addresses);
    parsed.addresses.source = get32(ip + kSource);
    parsed.addresses.dest = get32(ip + kDest);
    if (is_ipv6_number(parsed.addresses.source) || is_ipv6_number(parsed.addresses.dest)) {
        return fail(error, FrameError::kAddress);
    }
    read_ports(udp, parsed.addresses);
    parsed.ecn_ce = (ip[kTos] & kEcnMask) == kEcnCe;
    parsed.payload = frame.subspan(kFrameHeaderBytes, udp_length - kUdpBytes);
    return parsed;
}

}  // namespace ask
