// SPDX-License-Identifier: Apache-2.0
#include "lib/net/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>

namespace ask {

bool is_host_address(std::uint32_t address) {
    const std::uint32_t first = address >> 24U;
    return first != 0 && first != 127 && first < 224;
}

std::string format_ipv4(std::uint32_t address) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) {
        text += std::to_string((address >> shift) & 0xffU);
        text += shift > 0 ? "." : "";
    }
    return text;
}

std::optional<std::uint32_t> parse_ipv4(std::string_view text) {
    in_addr address{};
    // Which reads no further than a zero byte.
    if (text.find('\0') != std::string_view::npos ||
        inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) {
        return std::nullopt;
    }
    return ntohl(address.s_addr);
}

std::string format_ipv6(const Ipv6Address& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(AF_INET6, address.data(), text.data(), text.size());
    return text.data();
}

std::optional<Ipv6Address> parse_ipv6(std::string_view text) {
    Ipv6Address address{};
    // Which reads no further than a zero byte.
    if (text.find('\0') != std::string_view::npos ||
        inet_pton(AF_INET6, std::string(text).c_str(), address.data()) != 1) {
        return std::nullopt;
    }
    return address;
}

std::optional<std::uint32_t> mapped_ipv4(const Ipv6Address& address) {
    constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (!std::equal(kMapped.begin(), kMapped.end(), address.begin())) {
        return std::nullopt;
    }
    std::uint32_t ipv4 = 0;
    for (std::size_t i = kMapped.size(); i < address.size(); ++i) {
        ipv4 = ipv4 << 8U | address[i];
    }
    return ipv4;
}

bool is_link_local_or_multicast(const Ipv6Address& address) {
    return address[0] == 0xff || (address[0] == 0xfe && (address[1] & 0xc0U) == 0x80);
}

Result<> check_ipv6_host(const Ipv6Address& address) {
    constexpr Ipv6Address kUnspecified{};
    constexpr Ipv6Address kLoopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    const auto refuse = [&](const char* why) { return Error(Errc::kInput, format_ipv6(address) + why); };
    if (address == kUnspecified) {
        return refuse(" is no host's address");
    }
    if (address == kLoopback) {
        return refuse(" is every host's own: name one that others reach it by");
    }
    if (address[0] == 0xff) {
        return refuse(" is a multicast address, and no host's");
    }
    if (is_link_local_or_multicast(address)) {
        return refuse(
            " is link-local, and may be another host's on another link: give the host a global or a "
            "unique local address (fd00::/8)");
    }
    if (mapped_ipv4(address)) {
        return refuse(" stands for an IPv4 address: write that");
    }
    return {};
}

std::string format_mac(const MacAddress& mac) {
    std::array<char, 18> text{};
    std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
                  mac[4], mac[5]);
    return text.data();
}

Result<HostPort> split_host_port(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0) {
        return Error(Errc::kUsage, "must be HOST:PORT");
    }
    // It may be an address without a port, of which the last colon says nothing.
    if (text.front() != '[' && text.substr(0, colon).find(':') != std::string_view::npos) {
        return Error(Errc::kUsage, "must be HOST:PORT, and with an IPv6 address [ADDRESS]:PORT");
    }
    const std::string_view digits = text.substr(colon + 1);
    std::uint16_t port = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || port == 0) {
        return Error(Errc::kUsage, "must be HOST:PORT with a port from 1 to 65535");
    }
    return HostPort{std::string(text.substr(0, colon)), port};
}

std::string canonical_host_port(const std::string& text) {
    const auto parts = split_host_port(text);
    const bool in_brackets =
        parts.ok() && parts->host.size() > 2 && parts->host.front() == '[' && parts->host.back() == ']';
    const auto ipv6 = in_brackets
                          ? parse_ipv6(std::string_view(parts->host).substr(1, parts->host.size() - 2))
                          : std::nullopt;
    return ipv6 ? "[" + format_ipv6(*ipv6) + "]:" + std::to_string(parts->port) : text;
}

bool is_loopback(std::string_view host_port) {
    constexpr std::uint32_t kLoopbackNet = 127;
    const auto parts = split_host_port(host_port);
    const std::string host = parts.ok() ? parts->host : "";
    const auto ipv4 = parse_ipv4(host);
    return host == "localhost" || host == "[::1]" || (ipv4 && *ipv4 >> 24U == kLoopbackNet);
}

Result<> check_host_port(std::string_view text) {
    auto parts = split_host_port(text);
    if (!parts.ok()) {
        return std::move(parts).error();
    }
    const std::string_view host = parts->host;
    if (host.front() != '[') {
        return {};
    }
    const bool is_closed = host.size() > 2 && host.back() == ']';
    const std::string_view address = is_closed ? host.substr(1, host.size() - 2) : std::string_view();
    // Behind a % is the interface of a link-local one.
    return parse_ipv6(address.substr(0, address.find('%')))
               ? Result<>()
               : Error(Errc::kUsage, "must be HOST:PORT, and with an IPv6 address [ADDRESS]:PORT");
}

}  // namespace ask
