// SPDX-License-Identifier: Apache-2.0
#include "lib/text/line_parser.h"

#include <charconv>

#include "lib/abi/consts.h"
#include "lib/text/escape.h"

namespace ask {
namespace {

// Every byte of a key may be written as \xHH; a TAB and a value with room to spare follow.
constexpr std::size_t kMaxLine = std::size_t{4} * ASK_MAX_KEY + 256;
// As much of a bad value as an error shows.
constexpr std::size_t kShown = 40;

constexpr std::string_view kLimits = "from -9223372036854775808 to 9223372036854775807";

std::string shown(std::string_view text) {
    std::string out = "'";
    append_escaped(out, text.substr(0, kShown));
    return out + (text.size() > kShown ? "...'" : "'");
}

bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
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
        return Error(Errc::kInput, "the value ends in a carriage return: convert CRLF line ends first, " +
                                       std::string("e.g. with tr -d '\\r'"));
    }
    if (all_digits(text.front() == '-' ? text.substr(1) : text)) {
        return Error(Errc::kInput,
                     "value " + shown(text) + " is out of range: values go " + std::string(kLimits));
    }
    return Error(Errc::kInput, "value " + shown(text) + " is not a decimal integer");
}

LineParser::LineParser(std::string name, LineForm form) : name_(std::move(name)), form_(form) {}

Error LineParser::error_at(std::size_t offset, const std::string& what) const {
    return {Errc::kInput,
            name_ + ":" + std::to_string(line_ + 1) + ":" + std::to_string(offset + 1) + ": " + what};
}

Result<> LineParser::keep(std::string_view start) {
    if (kept_.size() + start.size() > kMaxLine) {
        return error_at(kMaxLine, "the line is longer than any key (" + std::to_string(ASK_MAX_KEY) +
                                      " bytes) and value can be");
    }
    kept_.append(start);
    return {};
}

Result<std::string_view> LineParser::key_of(std::string_view text) {
    std::string_view key = text;
    if (text.find('\\') != std::string_view::npos) {
        unescaped_.clear();
        if (const auto bad = append_unescaped(unescaped_, text)) {
            return error_at(*bad,
                            shown(text.substr(*bad, 4)) + R"( is no escape: use \\ \t \n \r \0 or \xHH)");
        }
        key = unescaped_;
    }
    if (key.size() > ASK_MAX_KEY) {
        return error_at(0, "the key has " + std::to_string(key.size()) + " bytes; the limit is " +
                               std::to_string(ASK_MAX_KEY));
    }
    return key;
}

Result<Tuple> LineParser::parse(std::string_view text) {
    std::string_view key_text = text;
    std::int64_t value = 1;
    if (form_ == LineForm::kKeyValue) {
        const std::size_t tab = text.find('\t');
        if (tab == std::string_view::npos) {
            return error_at(text.size(), "no TAB between key and value");
        }
        key_text = text.substr(0, tab);
        const std::string_view value_text = text.substr(tab + 1);
        auto parsed = parse_int64(value_text);
        if (!parsed) {
            const std::size_t second = value_text.find('\t');
            if (second != std::string_view::npos) {
                return error_at(tab + 1 + second, R"(a second TAB: write a TAB within a key as \t)");
            }
            return error_at(tab + 1, parsed.error().text());
        }
        value = *parsed;
    }
    auto key = key_of(key_text);
    if (!key) {
        return std::move(key).error();
    }
    return Tuple{*key, value};
}

}  // namespace ask
