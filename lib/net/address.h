// SPDX-License-Identifier: Apache-2.0
//
// IPv4 and Ethernet addresses. IPv4 addresses are 32-bit numbers in host byte order everywhere in user space.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace ask {

using MacAddress = std::array<std::uint8_t, 6>;

// Dotted form of an address.
[[nodiscard]] std::string format_ipv4(std::uint32_t address);
// Whether it can be one host's: neither loopback nor multicast, nor any of 0.0.0.0/8.
[[nodiscard]] bool is_host_address(std::uint32_t address);
// Four decimal numbers with dots; nothing else is an address.
[[nodiscard]] std::optional<std::uint32_t> parse_ipv4(std::string_view text);
// Six hexadecimal bytes with colons.
[[nodiscard]] std::string format_mac(const MacAddress& mac);

// HOST:PORT or [V6]:PORT, port 1..65535: kUsage.
struct HostPort {
    std::string host;
    std::uint16_t port = 0;
};
Result<HostPort> split_host_port(std::string_view text);
Result<> check_host_port(std::string_view text);
// Whether nobody but this machine gets to HOST:PORT.
[[nodiscard]] bool is_loopback(std::string_view host_port);

// The address in a control address "198.18.2.2:4791". kInput: it is no such thing.
[[nodiscard]] Result<std::uint32_t> ipv4_of_control(const std::string& text);

}  // namespace ask
