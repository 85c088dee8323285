// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/duration_flag.h"

#include <charconv>
#include <cstdint>
#include <string>

#include "lib/text/escape.h"

namespace ask::cli {
namespace {

constexpr std::uint32_t kDay = 86'400;

// Seconds; 0: no such unit.
std::uint32_t unit(std::string_view text) {
    return text == "s" ? 1U : text == "m" ? 60U : text == "h" ? 3'600U : text == "d" ? kDay : 0U;
}

}  // namespace

Result<std::chrono::seconds> parse_every(std::string_view text) {
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const std::uint64_t all =
        std::uint64_t{number} * unit(std::string_view(stop, static_cast<std::size_t>(end - stop)));
    if (error != std::errc() || all == 0 || all > kDay) {
        return Error(Errc::kUsage, shown(text) + " is no time from 1s to 1d, as 10s, 5m, 1h are");
    }
    return std::chrono::seconds(all);
}

}  // namespace ask::cli
