// SPDX-License-Identifier: Apache-2.0
#include "lib/net/frame.h"

#include <cstring>

namespace ask {
namespace {

constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
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

}  // namespace

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
    std::byte* const ip = ethernet + kEthernetBytes;
    std::byte* const udp = ip + kIpv4Bytes;
    std::memcpy(ethernet, addresses.dest_mac.data(), addresses.dest_mac.size());
    std::memcpy(ethernet + 6, addresses.source_mac.data(), addresses.source_mac.size());
    put16(ethernet + 12, kEtherTypeIpv4);
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
    put16(udp, addresses.source_port);
    put16(udp + 2, addresses.dest_port);
    put16(udp + 4, static_cast<std::uint16_t>(kUdpBytes + payload_bytes));
    put16(udp + 6, 0);
    return kFrameHeaderBytes + payload_bytes;
}

std::optional<UdpFrame> parse_frame(std::span<const std::byte> frame, FrameError* error) {
    if (frame.size() < kEthernetBytes + kIpv4Bytes) {
        return fail(error, FrameError::kTooShort);
    }
    const std::byte* const ethernet = frame.data();
    const std::byte* const ip = ethernet + kEthernetBytes;
    if (get16(ethernet + 12) != kEtherTypeIpv4 || ip[0] != kVersionNoOptions ||
        ip[kProtocol] != kProtocolUdp) {
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
    std::memcpy(parsed.addresses.dest_mac.data(), ethernet, parsed.addresses.dest_mac.size());
    std::memcpy(parsed.addresses.source_mac.data(), ethernet + 6, parsed.addresses.source_mac.size());
    parsed.addresses.source = get32(ip + kSource);
    parsed.addresses.dest = get32(ip + kDest);
    parsed.addresses.source_port = get16(udp);
    parsed.addresses.dest_port = get16(udp + 2);
    parsed.ecn_ce = (ip[kTos] & kEcnMask) == kEcnCe;
    parsed.payload = frame.subspan(kFrameHeaderBytes, udp_length - kUdpBytes);
    return parsed;
}

}  // namespace ask
