// SPDX-License-Identifier: Apache-2.0
//
// Addresses as text. IPv4 addresses are 32-bit numbers in host byte order everywhere in user space; hosts
// with IPv6 have numbers, too (lib/net/host_book.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace ask {

using MacAddress = std::array<std::uint8_t, 6>;
using Ipv6Address = std::array<std::uint8_t, 16>;  // as it travels

// Dotted form of an address.
[[nodiscard]] std::string format_ipv4(std::uint32_t address);
// Whether it can be one host's: neither loopback nor multicast, nor any of 0.0.0.0/8.
[[nodiscard]] bool is_host_address(std::uint32_t address);
// Four decimal numbers with dots; nothing else is an address.
[[nodiscard]] std::optional<std::uint32_t> parse_ipv4(std::string_view text);
// As RFC 5952 writes them.
[[nodiscard]] std::string format_ipv6(const Ipv6Address& address);
// What RFC 4291 reads; no interface behind it.
[[nodiscard]] std::optional<Ipv6Address> parse_ipv6(std::string_view text);
// The IPv4 address in ::ffff:a.b.c.d.
[[nodiscard]] std::optional<std::uint32_t> mapped_ipv4(const Ipv6Address& address);
// What no host is reached by from everywhere.
[[nodiscard]] bool is_link_local_or_multicast(const Ipv6Address& address);
// kInput: it cannot be one host's wherever it is used: unspecified, loopback, multicast, link-local, or one
// that stands for IPv4.
Result<> check_ipv6_host(const Ipv6Address& address);
// Six hexadecimal bytes with colons.
[[nodiscard]] std::string format_mac(const MacAddress& mac);

// HOST:PORT or [V6]:PORT, port 1..65535: kUsage.
struct HostPort {
    std::string host;
    std::uint16_t port = 0;
};
Result<HostPort> split_host_port(std::string_view text);
Result<> check_host_port(std::string_view text);
// [V6]:PORT with its address as format_ipv6() writes it, as which certificates are compared with it; all else
// as it is.
[[nodiscard]] std::string canonical_host_port(const std::string& text);
// Whether nobody but this machine gets to HOST:PORT.
[[nodiscard]] bool is_loopback(std::string_view host_port);

}  // namespace ask
