// SPDX-License-Identifier: Apache-2.0
//
// Some IPv4 addresses, as configuration names them: "198.18.1.2", or "198.18.0.0/15".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace ask {

struct AddressRange {
    std::uint32_t first = 0;  // its lowest address
    unsigned bits = 32;       // that all of them have in common, from the left

    [[nodiscard]] bool contains(std::uint32_t address) const {
        return bits == 0 || ((address ^ first) >> (32 - bits)) == 0;
    }
};

// kUsage: it is neither an address nor a range, or one with bits that are no part of it.
Result<AddressRange> parse_address_range(std::string_view text);
Result<> check_address_range(std::string_view text);
// Of those, the ones that are right.
[[nodiscard]] std::vector<AddressRange> address_ranges(const std::vector<std::string>& texts);

}  // namespace ask
