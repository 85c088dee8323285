// SPDX-License-Identifier: Apache-2.0
#include "lib/net/address_range.h"

#include <charconv>

namespace ask {
namespace {

constexpr unsigned kBitsOfByte = 8;
constexpr unsigned kIpv4Bits = 32;
constexpr unsigned kIpv6Bits = 128;

// What is left of an address if all but its first bits are cleared.
Ipv6Address front_of(Ipv6Address address, unsigned bits) {
    for (unsigned i = 0; i < address.size(); ++i) {
        const unsigned kept = bits <= i * kBitsOfByte ? 0 : bits - i * kBitsOfByte;
        if (kept < kBitsOfByte) {
            address[i] = static_cast<std::uint8_t>(address[i] & (0xff00U >> kept));
        }
    }
    return address;
}

std::uint32_t front_of(std::uint32_t address, unsigned bits) {
    return bits == 0 ? 0 : address >> (kIpv4Bits - bits) << (kIpv4Bits - bits);
}

// A range that has no host in it would hold nobody, and say nothing.
Result<> check_has_hosts(const AddressRange& range) {
    constexpr unsigned kMappedBits = 96;
    constexpr unsigned kLinkLocalBits = 10;
    const auto refuse = [](const std::string& why) { return Error(Errc::kUsage, why); };
    if (!range.first6) {
        return is_ipv6_number(range.first)
                   ? refuse(format_ipv4(range.first) + " is in 240.0.0.0/4, and no host's address")
                   : Result<>();
    }
    if (const auto mapped = mapped_ipv4(*range.first6); mapped && range.bits >= kMappedBits) {
        return refuse("the range stands for IPv4 addresses: write " + format_ipv4(*mapped) + "/" +
                      std::to_string(range.bits - kMappedBits));
    }
    const bool is_multicast = range.first6->front() == 0xff;
    return is_multicast || (is_link_local_or_multicast(*range.first6) && range.bits >= kLinkLocalBits)
               ? refuse(format_ipv6(*range.first6) + " is link-local or multicast, and no host's address")
               : Result<>();
}

Error begins_at(unsigned bits, const std::string& first) {
    return {Errc::kUsage, "the range of " + std::to_string(bits) + " bits begins at " + first};
}

}  // namespace

bool AddressRange::contains(std::uint32_t host) const {
    return contains(NamedHost{.number = host, .ipv6 = ipv6_of(host)});
}

bool AddressRange::contains(const NamedHost& host) const {
    if (first6) {
        return host.ipv6 && front_of(*host.ipv6, bits) == *first6;
    }
    return !host.ipv6 && !is_ipv6_number(host.number) && front_of(host.number, bits) == first;
}

Result<AddressRange> parse_address_range(std::string_view text) {
    const std::size_t slash = text.find('/');
    const auto ipv4 = parse_ipv4(text.substr(0, slash));
    const auto ipv6 = parse_ipv6(text.substr(0, slash));
    const unsigned all_bits = ipv6 ? kIpv6Bits : kIpv4Bits;
    AddressRange range{.first = ipv4.value_or(0), .bits = all_bits, .first6 = ipv6};
    if (slash != std::string_view::npos) {
        const std::string_view bits = text.substr(slash + 1);
        const auto [end, wrong] = std::from_chars(bits.data(), bits.data() + bits.size(), range.bits);
        if (wrong != std::errc() || end != bits.data() + bits.size() || range.bits > all_bits) {
            return Error(Errc::kUsage,
                         "a range must be ADDRESS/BITS, with 0 to 32 bits of IPv4 and 0 to 128 of "
                         "IPv6, like 198.18.0.0/15 or 2001:db8::/32");
        }
    }
    if (!ipv4 && !ipv6) {
        return Error(Errc::kUsage,
                     "must be an IPv4 or IPv6 address, or a range like 198.18.0.0/15 or 2001:db8::/32");
    }
    if (ipv6 && front_of(*ipv6, range.bits) != *ipv6) {
        return begins_at(range.bits, format_ipv6(front_of(*ipv6, range.bits)));
    }
    if (ipv4 && front_of(*ipv4, range.bits) != *ipv4) {
        return begins_at(range.bits, format_ipv4(front_of(*ipv4, range.bits)));
    }
    ASK_PASS(check_has_hosts(range));
    return range;
}

Result<> check_address_range(std::string_view text) {
    const auto range = parse_address_range(text);
    ASK_PASS(range);
    return {};
}

std::vector<AddressRange> address_ranges(const std::vector<std::string>& texts) {
    std::vector<AddressRange> ranges;
    ranges.reserve(texts.size());
    for (const std::string& text : texts) {
        if (const auto range = parse_address_range(text); range.ok()) {
            ranges.push_back(*range);
        }
    }
    return ranges;
}

}  // namespace ask
