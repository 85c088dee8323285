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

// 198.18.0.0/15, as all test networks.
[[nodiscard]] constexpr std::uint32_t address_of(std::uint32_t host) {
    return 0xc6120001U + host;
}
[[nodiscard]] constexpr std::uint32_t host_of(std::uint32_t address) {
    return address - 0xc6120001U;
}
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
