// SPDX-License-Identifier: Apache-2.0
#include "lib/text/decimal.h"

#include <array>
#include <charconv>
#include <cstddef>

#include "lib/text/escape.h"

namespace ask {
namespace {

__extension__ using Unsigned = unsigned __int128;

constexpr std::string_view kLimits = "from -9223372036854775808 to 9223372036854775807";

bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Error carriage_return() {
    return {Errc::kInput, "the value ends in a carriage return: --crlf takes it off"};
}

Error out_of_range(std::string_view text, const std::string& limits) {
    return {Errc::kInput, "value " + shown(text) + " is out of range: values go " + limits};
}

std::string scaled_limits(unsigned scale) {
    std::string text = "from ";
    append_scaled(text, INT64_MIN, scale);
    text += " to ";
    append_scaled(text, INT64_MAX, scale);
    return text + " at --scale " + std::to_string(scale);
}

// Appends a digit to a number that is kept negative, since those reach one further. False: it left int64.
bool append_digit(std::int64_t& negative, char digit) {
    return !__builtin_mul_overflow(negative, 10, &negative) &&
           !__builtin_sub_overflow(negative, digit - '0', &negative);
}

// The magnitude of INT64_MIN has no place in int64.
std::uint64_t magnitude_of(std::int64_t value) {
    return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                     : static_cast<std::uint64_t>(value);
}

// To a number in decimal digits.
void add_one(std::string& digits) {
    for (std::size_t at = digits.size(); at-- > 0;) {
        if (digits[at] != '9') {
            ++digits[at];
            return;
        }
        digits[at] = '0';
    }
    digits.insert(0, 1, '1');
}

struct Parts {
    bool minus = false;
    std::string_view whole;     // digits before the point
    std::string_view decimals;  // and behind it
};

Result<Parts> parts_of(std::string_view text) {
    Parts parts;
    std::string_view digits = text;
    if (digits.starts_with('-')) {
        parts.minus = true;
        digits.remove_prefix(1);
    }
    const std::size_t point = digits.find('.');
    parts.whole = digits.substr(0, point);
    if (point != std::string_view::npos) {
        parts.decimals = digits.substr(point + 1);
    }
    const bool whole_fits = parts.whole.empty() || all_digits(parts.whole);
    const bool decimals_fit =
        point == std::string_view::npos ? !parts.whole.empty() : all_digits(parts.decimals);
    if (whole_fits && decimals_fit) {
        return parts;
    }
    if (text.empty()) {
        return Error(Errc::kInput, "the value is empty");
    }
    return text.back() == '\r' ? carriage_return()
                               : Error(Errc::kInput, "value " + shown(text) + " is not a decimal number");
}

}  // namespace

Result<std::int64_t> parse_int64(std::string_view text) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end) {
        return value;
    }
    if (text.empty()) {
        return Error(Errc::kInput, "the value is empty");
    }
    if (text.back() == '\r') {
        return carriage_return();
    }
    if (all_digits(text.front() == '-' ? text.substr(1) : text)) {
        return out_of_range(text, std::string(kLimits));
    }
    return Error(Errc::kInput, "value " + shown(text) + " is not a decimal integer");
}

Result<std::int64_t> parse_scaled(std::string_view text, unsigned scale) {
    auto parts = parts_of(text);
    ASK_PASS(parts);
    if (parts->decimals.size() > scale) {
        return Error(Errc::kInput, "value " + shown(text) + " has " + std::to_string(parts->decimals.size()) +
                                       " decimals; --scale takes " + std::to_string(scale));
    }
    std::int64_t value = 0;
    bool fits = true;
    for (const char digit : parts->whole) {
        fits = fits && append_digit(value, digit);
    }
    for (std::size_t i = 0; i < scale; ++i) {
        fits = fits && append_digit(value, i < parts->decimals.size() ? parts->decimals[i] : '0');
    }
    if (!fits || (!parts->minus && value == INT64_MIN)) {
        return out_of_range(text, scaled_limits(scale));
    }
    return parts->minus ? value : -value;
}

void append_scaled(std::string& out, std::int64_t value, unsigned scale) {
    std::array<char, 24> buffer{};
    const bool minus = value < 0;
    const std::uint64_t magnitude = magnitude_of(value);
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude).ptr;
    std::string digits(buffer.data(), end);
    if (digits.size() <= scale) {
        digits.insert(0, scale + 1 - digits.size(), '0');
    }
    if (scale > 0) {
        digits.insert(digits.size() - scale, 1, '.');
    }
    out += minus ? "-" : "";
    out += digits;
}

void append_mean(std::string& out, std::int64_t value, std::int64_t count, unsigned scale,
                 unsigned decimals) {
    const bool minus = value < 0;
    // 2^63 x 10^18, the largest divisor, leaves room for ten times a remainder.
    Unsigned divisor = static_cast<std::uint64_t>(count);
    for (unsigned i = 0; i < scale; ++i) {
        divisor *= 10;
    }
    const std::uint64_t magnitude = magnitude_of(value);
    std::string digits = std::to_string(static_cast<std::uint64_t>(magnitude / divisor));
    Unsigned left = magnitude % divisor;
    for (unsigned i = 0; i < decimals; ++i) {
        left *= 10;
        digits += static_cast<char>('0' + static_cast<int>(left / divisor));
        left %= divisor;
    }
    if (left >= divisor - left) {
        add_one(digits);
    }
    const bool zero = digits.find_first_not_of('0') == std::string::npos;
    if (decimals > 0) {
        digits.insert(digits.size() - decimals, 1, '.');
    }
    out += minus && !zero ? "-" : "";
    out += digits;
}

}  // namespace ask
