// SPDX-License-Identifier: Apache-2.0
#include "lib/net/address_range.h"

#include <charconv>

#include "lib/net/address.h"

namespace ask {

Result<AddressRange> parse_address_range(std::string_view text) {
    constexpr unsigned kAllBits = 32;
    const std::size_t slash = text.find('/');
    const auto first = parse_ipv4(text.substr(0, slash));
    AddressRange range{.first = first.value_or(0), .bits = kAllBits};
    if (slash != std::string_view::npos) {
        const std::string_view bits = text.substr(slash + 1);
        const auto [end, wrong] = std::from_chars(bits.data(), bits.data() + bits.size(), range.bits);
        if (wrong != std::errc() || end != bits.data() + bits.size() || range.bits > kAllBits) {
            return Error(Errc::kUsage, "a range must be IPv4/BITS, with 0 to 32 bits, like 198.18.0.0/15");
        }
    }
    if (!first) {
        return Error(Errc::kUsage, "must be an IPv4 address, or a range like 198.18.0.0/15");
    }
    const std::uint32_t rest = range.bits == kAllBits ? 0 : UINT32_MAX >> range.bits;
    if ((*first & rest) != 0) {
        return Error(Errc::kUsage, "the range of " + std::to_string(range.bits) + " bits begins at " +
                                       format_ipv4(*first & ~rest));
    }
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
