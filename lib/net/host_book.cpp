// SPDX-License-Identifier: Apache-2.0
#include "lib/net/host_book.h"

#include <mutex>

#include "lib/abi/check.h"

namespace ask {
namespace {

constexpr std::uint32_t kIpv6Numbers = 0xf0000000;
constexpr std::uint32_t kBroadcast = 0xffffffff;

std::uint64_t little_endian(const std::uint8_t* at) {
    std::uint64_t word = 0;
    for (unsigned i = 0; i < sizeof(word); ++i) {
        word |= std::uint64_t{at[i]} << (8 * i);
    }
    return word;
}

// SipHash-2-4 of 16 bytes.
std::uint64_t siphash(const std::uint8_t* key, const Ipv6Address& address) {
    const std::uint64_t k0 = little_endian(key);
    const std::uint64_t k1 = little_endian(key + sizeof(k0));
    std::uint64_t v0 = k0 ^ 0x736f6d6570736575U;
    std::uint64_t v1 = k1 ^ 0x646f72616e646f6dU;
    std::uint64_t v2 = k0 ^ 0x6c7967656e657261U;
    std::uint64_t v3 = k1 ^ 0x7465646279746573U;
    const auto take = [&](std::uint64_t word) {
        v3 ^= word;
        ASK_SIPROUND(v0, v1, v2, v3);
        ASK_SIPROUND(v0, v1, v2, v3);
        v0 ^= word;
    };
    take(little_endian(address.data()));
    take(little_endian(address.data() + sizeof(std::uint64_t)));
    take(std::uint64_t{address.size()} << 56U);
    v2 ^= 0xffU;
    for (int round = 0; round < 4; ++round) {
        ASK_SIPROUND(v0, v1, v2, v3);
    }
    return v0 ^ v1 ^ v2 ^ v3;
}

HostBook& book_of_process() {
    static HostBook book;
    return book;
}

Result<NamedHost> named_ipv4(std::uint32_t address) {
    const auto number = number_of_ipv4(address);
    ASK_PASS(number);
    return NamedHost{.number = *number};
}

Result<NamedHost> named_ipv6(const Ipv6Address& address) {
    if (const auto mapped = mapped_ipv4(address)) {
        return named_ipv4(*mapped);
    }
    ASK_PASS(check_ipv6_host(address));
    return NamedHost{.number = number_of(address), .ipv6 = address};
}

}  // namespace

std::uint32_t number_of(const Ipv6Address& address) {
    constexpr Ipv6Address kKey = {'A', 'S', 'K', ' ', 'h', 'o', 's', 't',
                                  ' ', 'n', 'u', 'm', 'b', 'e', 'r', 's'};
    const std::uint32_t number = kIpv6Numbers | static_cast<std::uint32_t>(siphash(kKey.data(), address));
    return number == kBroadcast ? number - 1 : number;
}

Result<std::uint32_t> number_of_ipv4(std::uint32_t address) {
    return is_ipv6_number(address)
               ? Error(Errc::kInput, format_ipv4(address) + " is in 240.0.0.0/4, and no host's address")
               : Result<std::uint32_t>(address);
}

Result<std::uint32_t> HostBook::enter(const Ipv6Address& address) {
    if (const auto mapped = mapped_ipv4(address)) {
        return number_of_ipv4(*mapped);
    }
    ASK_PASS(check_ipv6_host(address));
    const std::uint32_t number = number_of(address);
    const std::unique_lock lock(mutex_);
    const auto known = hosts_.find(number);
    if (known != hosts_.end()) {
        return known->second == address
                   ? Result<std::uint32_t>(number)
                   : Error(Errc::kExists, format_ipv6(known->second) + " and " + format_ipv6(address) +
                                              " have the same number " + format_ipv4(number) +
                                              ": give one of the hosts another address");
    }
    if (hosts_.size() >= most_) {
        return Error(Errc::kLimit, format_ipv6(address) + ": " + std::to_string(most_) +
                                       " IPv6 hosts are known here, and there is room for no more: restart "
                                       "this process");
    }
    hosts_.emplace(number, address);
    return number;
}

std::optional<Ipv6Address> HostBook::find(std::uint32_t number) const {
    const std::shared_lock lock(mutex_);
    const auto known = hosts_.find(number);
    return known == hosts_.end() ? std::nullopt : std::optional(known->second);
}

Result<std::uint32_t> enter_ipv6(const Ipv6Address& address) {
    return book_of_process().enter(address);
}

std::optional<Ipv6Address> ipv6_of(std::uint32_t number) {
    return is_ipv6_number(number) ? book_of_process().find(number) : std::nullopt;
}

bool is_host_number(std::uint32_t number) {
    return is_host_address(number) || ipv6_of(number).has_value();
}

Result<std::uint32_t> enter_host(const NamedHost& host) {
    return host.ipv6 ? enter_ipv6(*host.ipv6) : Result<std::uint32_t>(host.number);
}

Result<NamedHost> read_host(std::string_view text) {
    if (const auto ipv4 = parse_ipv4(text)) {
        return named_ipv4(*ipv4);
    }
    const auto ipv6 = parse_ipv6(text);
    return ipv6 ? named_ipv6(*ipv6)
                : Error(Errc::kInput, "must be an IPv4 or IPv6 address, not " + std::string(text));
}

Result<std::uint32_t> parse_host(std::string_view text) {
    const auto host = read_host(text);
    ASK_PASS(host);
    return enter_host(*host);
}

std::string format_host(std::uint32_t number) {
    if (!is_ipv6_number(number)) {
        return format_ipv4(number);
    }
    const auto address = ipv6_of(number);
    return address ? format_ipv6(*address) : "host number " + format_ipv4(number);
}

std::string control_address(std::uint32_t number, std::uint16_t port) {
    const std::string host = format_host(number);
    return (is_ipv6_number(number) ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<NamedHost> read_host_of_control(std::string_view text) {
    const auto parts = split_host_port(text);
    const std::string host = parts.ok() ? parts->host : "";
    if (const auto ipv4 = parse_ipv4(host)) {
        return named_ipv4(*ipv4);
    }
    // Without brackets nobody can tell where the port begins.
    const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    const auto ipv6 =
        in_brackets ? parse_ipv6(std::string_view(host).substr(1, host.size() - 2)) : std::nullopt;
    return ipv6 ? named_ipv6(*ipv6)
                : Error(Errc::kInput, "must be IPv4:PORT or [IPv6]:PORT, not " + std::string(text));
}

Result<std::uint32_t> host_of_control(std::string_view text) {
    const auto host = read_host_of_control(text);
    ASK_PASS(host);
    return enter_host(*host);
}

}  // namespace ask
