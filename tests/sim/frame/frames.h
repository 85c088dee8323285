// SPDX-License-Identifier: Apache-2.0
//
// Frames on their way, and where they may go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/net/frame.h"

namespace ask::sim {

inline constexpr std::size_t kFrameRoom = 1536;

struct Frame {
    std::size_t size = 0;
    bool damaged = false;  // or forged: nothing in it need be right
    std::array<unsigned char, kFrameRoom> bytes;
    [[nodiscard]] std::span<const std::byte> view() const {
        return std::as_bytes(std::span(bytes)).first(size);
    }
};
using FramePtr = std::unique_ptr<Frame>;

// Hosts and switches have numbers of their own; a port is one of a switch's.
struct Place {
    bool is_switch = false;
    std::uint32_t number = 0;
    std::uint32_t port = 0;
};

// Hosts of a history have IPv4, 198.18.0.0/15 as all test networks, or all of them IPv6, 2001:2::/48. Of the
// histories that begin from here on.
void use_family(bool six);
[[nodiscard]] bool is_six();
// A host's address, or with IPv6 its number, of which the book knows (lib/net/host_book.h).
[[nodiscard]] std::uint32_t address_of(std::uint32_t host);
// The way back: a number that no host has where it is nobody's.
[[nodiscard]] std::uint32_t host_of(std::uint32_t address);
[[nodiscard]] Ipv6Address six_address(std::uint32_t host);
[[nodiscard]] std::uint32_t host_of(const Ipv6Address& address);
// What goes before the payload in a frame.
[[nodiscard]] std::size_t header_bytes();
// Of a packet to a host, by the sender's own switch.
[[nodiscard]] UdpAddresses addresses_between(std::uint32_t from, std::uint32_t to);
// Whether it says that it is IPv6 and has room for the headers.
[[nodiscard]] bool is_six_frame(const Frame& frame);
// Of such a frame: its addresses.
[[nodiscard]] Ipv6Address six_source(const Frame& frame);
[[nodiscard]] Ipv6Address six_dest(const Frame& frame);
// Whether who gets it would take it for whole.
[[nodiscard]] bool is_whole_six(const Frame& frame);

// A switch's port to one of its hosts, and to another switch: behind those to hosts, of which there may be
// 1000.
[[nodiscard]] constexpr std::uint32_t port_to_host(std::uint32_t host) {
    return 10 + host;
}
[[nodiscard]] constexpr std::uint32_t port_to_switch(std::uint32_t number) {
    return 1'100 + number;
}
inline constexpr std::uint32_t kPorts = 1'200;

[[nodiscard]] constexpr MacAddress mac_of(std::uint32_t number) {
    return {2,
            0,
            static_cast<std::uint8_t>(number >> 24U),
            static_cast<std::uint8_t>(number >> 16U),
            static_cast<std::uint8_t>(number >> 8U),
            static_cast<std::uint8_t>(number)};
}
[[nodiscard]] constexpr MacAddress mac_of_host(std::uint32_t host) {
    return mac_of(host + 1);
}
[[nodiscard]] constexpr MacAddress mac_of_switch(std::uint32_t number) {
    return mac_of(1'000'000 + number);
}

}  // namespace ask::sim
