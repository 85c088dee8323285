// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/frame/frames.h"

#include <algorithm>
#include <array>
#include <map>

#include "lib/base/bytes.h"

namespace ask::sim {

namespace {

constexpr std::uint32_t kFirstAddress = 0xc6120001;
constexpr std::uint32_t kNobody = 0xffffffff;
constexpr std::size_t kSourceAt = kEthernetBytes + 8;
constexpr std::size_t kDestAt = kEthernetBytes + 24;
constexpr std::size_t kUdpAt = kEthernetBytes + kIpv6Bytes;

bool six_history = false;

// Numbers of hosts with IPv6, and the way back.
struct Numbers {
    static constexpr std::uint32_t kHosts = 1'100;

    Numbers() {
        for (std::uint32_t host = 0; host < kHosts; ++host) {
            of_host[host] = enter_ipv6(six_address(host)).value();
            hosts[of_host[host]] = host;
        }
    }
    std::array<std::uint32_t, kHosts> of_host{};
    std::map<std::uint32_t, std::uint32_t> hosts;
};

const Numbers& numbers() {
    static const Numbers all;
    return all;
}

Ipv6Address address_at(const Frame& frame, std::size_t at) {
    Ipv6Address address{};
    std::copy_n(frame.bytes.begin() + static_cast<std::ptrdiff_t>(at), address.size(), address.begin());
    return address;
}

}  // namespace

void use_family(bool six) {
    six_history = six;
}

bool is_six() {
    return six_history;
}

std::uint32_t address_of(std::uint32_t host) {
    return six_history ? numbers().of_host.at(host) : kFirstAddress + host;
}

std::uint32_t host_of(std::uint32_t address) {
    if (!six_history) {
        return address - kFirstAddress;
    }
    const auto found = numbers().hosts.find(address);
    return found == numbers().hosts.end() ? kNobody : found->second;
}

// 2001:2:0:H::2
Ipv6Address six_address(std::uint32_t host) {
    Ipv6Address address{0x20, 0x01, 0x00, 0x02};
    address[6] = static_cast<std::uint8_t>(host >> 8U);
    address[7] = static_cast<std::uint8_t>(host);
    address[15] = 2;
    return address;
}

std::uint32_t host_of(const Ipv6Address& address) {
    const std::uint32_t host = std::uint32_t{address[6]} << 8U | address[7];
    return six_history && address == six_address(host) ? host : kNobody;
}

std::size_t header_bytes() {
    return six_history ? kMostFrameHeaderBytes : kFrameHeaderBytes;
}

UdpAddresses addresses_between(std::uint32_t from, std::uint32_t to) {
    UdpAddresses addresses;
    addresses.source = address_of(from);
    addresses.dest = address_of(to);
    if (six_history) {
        addresses.source6 = six_address(from);
        addresses.dest6 = six_address(to);
    }
    return addresses;
}

bool is_six_frame(const Frame& frame) {
    return frame.size >= kMostFrameHeaderBytes && frame.bytes[12] == 0x86 && frame.bytes[13] == 0xdd;
}

Ipv6Address six_source(const Frame& frame) {
    return address_at(frame, kSourceAt);
}

Ipv6Address six_dest(const Frame& frame) {
    return address_at(frame, kDestAt);
}

bool is_whole_six(const Frame& frame) {
    const auto bytes = frame.view();
    const std::size_t length = load_be<std::uint16_t>(&bytes[kUdpAt + 4]);
    if (kUdpAt + length > frame.size) {
        return false;
    }
    const auto packet = bytes.subspan(kEthernetBytes, kIpv6Bytes + length);
    return load_be<std::uint16_t>(&bytes[kUdpAt + 6]) == ipv6_udp_checksum(packet);
}

}  // namespace ask::sim
