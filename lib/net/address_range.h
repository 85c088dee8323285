// SPDX-License-Identifier: Apache-2.0
//
// Some addresses, as configuration names them: "198.18.1.2", "198.18.0.0/15", "2001:db8::1", or
// "2001:db8::/32".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/net/host_book.h"

namespace ask {

struct AddressRange {
    std::uint32_t first = 0;              // its lowest address
    unsigned bits = 32;                   // that all of them have in common, from the left
    std::optional<Ipv6Address> first6{};  // instead of `first`: the range is one of IPv6

    // Of a host's number; an IPv6 host that the book does not know is in none.
    [[nodiscard]] bool contains(std::uint32_t host) const;
    [[nodiscard]] bool contains(const NamedHost& host) const;
};

// kUsage: it is neither an address nor a range, or one with bits that are no part of it.
Result<AddressRange> parse_address_range(std::string_view text);
Result<> check_address_range(std::string_view text);
// Of those, the ones that are right.
[[nodiscard]] std::vector<AddressRange> address_ranges(const std::vector<std::string>& texts);

}  // namespace ask
