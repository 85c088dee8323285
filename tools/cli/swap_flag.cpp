// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/swap_flag.h"

#include <charconv>
#include <cstdint>
#include <string_view>

namespace ask::cli {
namespace {

constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 62U;
constexpr std::uint64_t kMaxMilliseconds = 3'600'000;

Error malformed(std::string_view part) {
    return {Errc::kUsage,
            "'" + std::string(part) +
                "' is none of off, auto, packets=N, tuples=N and every=MS (separated by commas)"};
}

Result<std::uint64_t> parse_number(std::string_view part, std::string_view digits, std::uint64_t most) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) {
        return malformed(part);
    }
    if (error != std::errc{} || number == 0 || number > most) {
        return Error(Errc::kUsage, "'" + std::string(part) + "' must be from 1 to " + std::to_string(most));
    }
    return number;
}

Result<> parse_part(std::string_view part, SwapSettings& settings) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
        return malformed(part);
    }
    const std::string_view name = part.substr(0, equals);
    const bool time = name == "every";
    const auto number = parse_number(part, part.substr(equals + 1), time ? kMaxMilliseconds : kMaxCount);
    ASK_PASS(number);
    const auto set = [&](auto& field, auto value) -> Result<> {
        if (field != 0) {
            return Error(Errc::kUsage, std::string(name) + " is given twice");
        }
        field = value;
        return {};
    };
    if (time) {
        return set(settings.interval, static_cast<Nanos>(*number) * kMillisecond);
    }
    if (name == "packets" || name == "tuples") {
        return set(name == "packets" ? settings.packets : settings.tuples, *number);
    }
    return malformed(part);
}

}  // namespace

Result<std::optional<SwapSettings>> parse_swap(const std::string& text) {
    if (text == "off") {
        return std::optional<SwapSettings>();
    }
    SwapSettings settings;
    if (text == "auto") {
        return std::optional(settings);
    }
    std::string_view rest = text;
    while (true) {
        const std::size_t comma = rest.find(',');
        ASK_PASS(parse_part(rest.substr(0, comma), settings));
        if (comma == std::string_view::npos) {
            return std::optional(settings);
        }
        rest.remove_prefix(comma + 1);
    }
}

}  // namespace ask::cli
