// SPDX-License-Identifier: Apache-2.0
#include "lib/text/line_parser.h"

#include <bit>
#include <charconv>

#include "lib/abi/consts.h"
#include "lib/core/bytes.h"
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

constexpr std::uint64_t kNewlines = 0x0a0a0a0a0a0a0a0aU;
constexpr std::uint64_t kBackslashes = 0x5c5c5c5c5c5c5c5cU;

struct Line {
    std::size_t length;    // to the newline, or all there is
    bool escaped = false;  // has a backslash
};

// The upper bit of each zero byte of `word`, and perhaps of bytes above the lowest such.
std::uint64_t zero_bytes(std::uint64_t word) {
    constexpr std::uint64_t kOnes = 0x0101010101010101U;
    return (word - kOnes) & ~word & (kOnes << 7U);
}

// Lines are short as a rule, so eight bytes at a time are looked through for newline and backslash together.
Line find_line(std::string_view text) {
    Line line{.length = 0};
    for (; line.length + 8 <= text.size(); line.length += 8) {
        const auto word = load_raw<std::uint64_t>(text.data() + line.length);
        const std::uint64_t newline = zero_bytes(word ^ kNewlines);
        const std::uint64_t backslash = zero_bytes(word ^ kBackslashes);
        if (newline != 0) {
            line.escaped |= (backslash & ((newline & -newline) - 1)) != 0;
            line.length += static_cast<std::size_t>(std::countr_zero(newline)) / 8;
            return line;
        }
        line.escaped |= backslash != 0;
    }
    for (; line.length < text.size() && text[line.length] != '\n'; ++line.length) {
        line.escaped |= text[line.length] == '\\';
    }
    return line;
}

constexpr std::size_t kBlock = 64;

// What is in a block of text: a bit for each newline, and whether there is a backslash.
struct Block {
    std::uint64_t newlines = 0;
    bool escaped = false;
};

Block look_at(const char* text) {
    constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7fU;
    Block block;
    std::uint64_t backslashes = 0;
#pragma GCC unroll 8
    for (std::size_t at = 0; at < kBlock; at += 8) {
        const auto word = load_raw<std::uint64_t>(text + at);
        backslashes |= zero_bytes(word ^ kBackslashes);
        // The upper bit of each newline and of nothing else; the product brings the eight together.
        const std::uint64_t other = word ^ kNewlines;
        const std::uint64_t newlines = ~(((other & kLow) + kLow) | other | kLow);
        block.newlines |= ((newlines >> 7U) * 0x0102040810204080U >> 56U) << at;
    }
    block.escaped = backslashes != 0;
    return block;
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

Result<std::string_view> LineParser::key_of(std::string_view text, bool escaped) {
    std::string_view key = text;
    if (escaped) {
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

// The key's part of a line that has a value too.
Result<std::string_view> LineParser::split(std::string_view text, std::int64_t& value) {
    const std::size_t tab = text.find('\t');
    if (tab == std::string_view::npos) {
        return error_at(text.size(), "no TAB between key and value");
    }
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
    return text.substr(0, tab);
}

Result<> LineParser::take(std::string_view text, bool escaped, const char* end) {
    std::string_view key_text = text;
    std::int64_t value = 1;
    if (form_ == LineForm::kKeyValue) {
        auto before_tab = split(text, value);
        ASK_PASS(before_tab);
        key_text = *before_tab;
    }
    if (!escaped && key_text.size() <= ASK_MAX_KEY) {
        batch_[count_] = Tuple(key_text, value, end);
    } else {
        auto key = key_of(key_text, escaped);
        ASK_PASS(key);
        batch_[count_] = Tuple(*key, value);
    }
    ++count_;
    ++line_;
    return {};
}

Result<> LineParser::take_kept() {
    kept_done_ = true;
    return take(kept_, kept_.find('\\') != std::string::npos, kept_.data() + kept_.size());
}

// Short keys without escapes, as most are: the lines that end within the first block, all at once. False if
// there are no such.
bool LineParser::take_block(std::string_view& piece) {
    if (form_ != LineForm::kKey || piece.size() < kBlock) {
        return false;
    }
    Block block = look_at(piece.data());
    if (block.newlines == 0 || block.escaped) {
        return false;
    }
    const char* const end = piece.data() + piece.size();
    const char* start = piece.data();
    for (; block.newlines != 0; block.newlines &= block.newlines - 1) {
        const char* const stop = piece.data() + std::countr_zero(block.newlines);
        batch_[count_++] = Tuple({start, static_cast<std::size_t>(stop - start)}, 1, end);
        ++line_;
        start = stop + 1;
    }
    piece.remove_prefix(static_cast<std::size_t>(start - piece.data()));
    return true;
}

Result<> LineParser::fill(std::string_view& piece) {
    if (std::exchange(kept_done_, false)) {
        kept_.clear();
    }
    const char* const end = piece.data() + piece.size();
    while (!piece.empty() && count_ + kBlock <= kBatch) {
        if (kept_.empty() && take_block(piece)) {
            continue;
        }
        const Line line = find_line(piece);
        if (line.length == piece.size()) {
            return keep(std::exchange(piece, {}));
        }
        const std::string_view text = piece.substr(0, line.length);
        piece.remove_prefix(line.length + 1);
        if (!kept_.empty()) {
            ASK_PASS(keep(text));
            return take_kept();
        }
        ASK_PASS(take(text, line.escaped, end));
        if (line.escaped) {
            break;  // there is room for one key without its escapes
        }
    }
    return {};
}

}  // namespace ask
