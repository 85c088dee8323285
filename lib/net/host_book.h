// SPDX-License-Identifier: Apache-2.0
//
// Hosts by number. Inside, and on the wire, a host is a number of 32 bits: with IPv4 its address, in host
// byte order; with IPv6 240.0.0.0/4 plus 28 bits of SipHash-2-4 over its address, under the key "ASK host
// numbers". The number follows from the address alone, so everybody gives a host the same one. The way back
// is in a book of the process, as interfaces' names are in the kernel by index: numbers of IPv6 hosts mean
// something only where their addresses were entered. Everything here is thread-safe.
//
// Two addresses may have one number: with n hosts about n^2 / 2^29 such pairs are to be expected. Whoever
// meets the second refuses it by name; no number ever changes its meaning while the process runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/net/address.h"

namespace ask {

// In 240.0.0.0/4, and never 255.255.255.255.
[[nodiscard]] std::uint32_t number_of(const Ipv6Address& address);
// Whether it is in 240.0.0.0/4: no IPv4 host has such an address.
[[nodiscard]] constexpr bool is_ipv6_number(std::uint32_t number) {
    return number >= 0xf0000000 && number != 0xffffffff;
}

// The address itself. kInput: it is in 240.0.0.0/4, where nobody could tell it from an IPv6 host's number.
Result<std::uint32_t> number_of_ipv4(std::uint32_t address);

// Number -> IPv6 address. Entries stay.
class HostBook {
 public:
    static constexpr std::size_t kMostHosts = std::size_t{1} << 20U;

    explicit HostBook(std::size_t most = kMostHosts) : most_(most) {}

    // The number of a host, which the book knows from here on; of a v4-mapped address that of the IPv4 host.
    // kInput: no host has such an address. kExists: another host has its number. kLimit: the book is full.
    Result<std::uint32_t> enter(const Ipv6Address& address);
    [[nodiscard]] std::optional<Ipv6Address> find(std::uint32_t number) const;

 private:
    const std::size_t most_;
    mutable std::shared_mutex mutex_;
    // Ordered: those who may choose addresses cannot make it slow.
    std::map<std::uint32_t, Ipv6Address> hosts_;
};

// The process's book.
Result<std::uint32_t> enter_ipv6(const Ipv6Address& address);
[[nodiscard]] std::optional<Ipv6Address> ipv6_of(std::uint32_t number);
// Whether a number is an IPv4 host's address, or an IPv6 host's that the book knows.
[[nodiscard]] bool is_host_number(std::uint32_t number);

// A host by its address, which nobody has entered for that.
struct NamedHost {
    std::uint32_t number = 0;
    std::optional<Ipv6Address> ipv6{};  // none: its number is its address
};
// Errors of both are those of parse_host() and host_of_control(), but for kExists and kLimit.
Result<NamedHost> read_host(std::string_view text);
Result<NamedHost> read_host_of_control(std::string_view text);
// Its number, which the book knows from here on. kExists, kLimit.
Result<std::uint32_t> enter_host(const NamedHost& host);

// The number of the host with an IPv4 or IPv6 address; an IPv6 one is entered. Of IPv4 all pass but those of
// 240.0.0.0/4. kInput: it is neither, or one of IPv6 that no host has; kExists, kLimit.
Result<std::uint32_t> parse_host(std::string_view text);
// Its address, or "host number 240.1.2.3" when the book does not know it.
[[nodiscard]] std::string format_host(std::uint32_t number);

// "198.18.1.2:4791", "[2001:2::2]:4791".
[[nodiscard]] std::string control_address(std::uint32_t number, std::uint16_t port);
// The host in a control address; its errors are those of parse_host().
Result<std::uint32_t> host_of_control(std::string_view text);

}  // namespace ask
