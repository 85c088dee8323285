// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/rate_flag.h"

#include <array>

#include "lib/text/decimal.h"
#include "lib/text/escape.h"

namespace ask::cli {
namespace {

// Less would keep a packet waiting for longer than its receiver waits for it.
constexpr std::int64_t kLeastRate = 64'000;
constexpr std::int64_t kLargestRate = 1'000'000'000'000;
// Of ten, that the suffix stands for.
unsigned exponent_of(char suffix) {
    switch (suffix) {
        case 'k':
        case 'K':
            return 3;
        case 'M':
            return 6;
        case 'G':
            return 9;
        default:
            return 0;
    }
}

}  // namespace

Result<std::uint64_t> parse_rate(std::string_view text) {
    const Error wrong(Errc::kUsage, shown(text) + " is no rate: bits a second, as 800k, 100M or 2.5G");
    if (text.empty() || text.starts_with('-')) {
        return wrong;
    }
    const unsigned exponent = exponent_of(text.back());
    const auto rate = parse_scaled(exponent == 0 ? text : text.substr(0, text.size() - 1), exponent);
    if (!rate) {
        return wrong;
    }
    if (*rate < kLeastRate || *rate > kLargestRate) {
        return Error(Errc::kUsage,
                     shown(text) + " is out of range: rates go from 64k to 1000G bits a second");
    }
    return static_cast<std::uint64_t>(*rate);
}

std::string rate_text(std::uint64_t bits_per_second) {
    constexpr std::array<const char*, 4> kNames{"bit/s", "kbit/s", "Mbit/s", "Gbit/s"};
    std::size_t power = 0;
    std::uint64_t unit = 1;
    while (power + 1 < kNames.size() && bits_per_second >= unit * 1000) {
        unit *= 1000;
        ++power;
    }
    std::string text = std::to_string(bits_per_second / unit);
    if (std::string decimals = std::to_string(bits_per_second % unit * 1000 / unit); decimals != "0") {
        decimals.insert(0, 3 - decimals.size(), '0');
        decimals.erase(decimals.find_last_not_of('0') + 1);
        text += "." + decimals;
    }
    return text + " " + kNames[power];
}

}  // namespace ask::cli
