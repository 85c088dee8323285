// SPDX-License-Identifier: Apache-2.0
#include "lib/text/line_parser.h"

#include <bit>
#include <charconv>

#include "lib/abi/consts.h"
#include "lib/base/bytes.h"
#include "lib/text/decimal.h"
#include "lib/text/escape.h"

namespace ask {
namespace {

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

}  // namespace

LineParser::LineParser(std::string name, LineRules rules, BadLines* bad)
    : name_(std::move(name)),
      form_(rules.form),
      plain_(rules.plain()),
      blocks_(plain_ && form_ == LineForm::kKey),
      max_line_(rules.max_line()),
      reader_(std::move(rules)),
      bad_(bad) {}

Error LineParser::error_at(std::size_t offset, const std::string& what) const {
    return {Errc::kInput,
            name_ + ":" + std::to_string(line_ + 1) + ":" + std::to_string(offset + 1) + ": " + what};
}

Result<> LineParser::keep(std::string_view start) {
    if (kept_.size() + start.size() > max_line_) {
        kept_.clear();
        return error_at(max_line_, "the line is longer than " + std::to_string(max_line_) + " bytes");
    }
    kept_.append(start);
    return {};
}

Result<> LineParser::forgive(Result<> taken) {
    if (taken.ok() || bad_ == nullptr) {
        return taken;
    }
    ASK_PASS(bad_->skip(taken.error()));
    ++line_;
    return {};
}

Result<std::string_view> LineParser::key_of(std::string_view text, bool escaped) {
    std::string_view key = text;
    if (escaped) {
        unescaped_.clear();
        if (const auto bad = append_unescaped(unescaped_, text)) {
            return error_at(*bad, bad_escape(text.substr(*bad)));
        }
        key = unescaped_;
    }
    if (key.size() > ASK_MAX_KEY) {
        return error_at(0, key_too_long(key.size()));
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
    if (!plain_) {
        return take_by_rules(text, end);
    }
    std::string_view key_text = text;
    std::int64_t value = 1;
    if (form_ == LineForm::kKeyValue) {
        auto before_tab = split(text, value);
        ASK_PASS(before_tab);
        key_text = *before_tab;
    } else if (text.ends_with('\r')) {
        return error_at(text.size() - 1, kCarriageReturn);
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

Result<> LineParser::take_by_rules(std::string_view text, const char* end) {
    LineTuple tuple;
    if (const auto bad = reader_.read(text, tuple)) {
        return error_at(bad->offset, bad->what);
    }
    alone_ = tuple.key_in_reader;
    batch_[count_] = alone_ ? Tuple(tuple.key, tuple.value) : Tuple(tuple.key, tuple.value, end);
    ++count_;
    ++line_;
    return {};
}

Result<> LineParser::take_kept() {
    kept_done_ = true;
    return forgive(take(kept_, kept_.find('\\') != std::string::npos, kept_.data() + kept_.size()));
}

// Short keys without escapes, as most are: the lines that end within the first block, all at once. False if
// there are no such, or one that take() has to refuse.
bool LineParser::take_block(std::string_view& piece) {
    if (!blocks_ || piece.size() < kBlock) {
        return false;
    }
    Block block = look_at(piece.data());
    if (block.newlines == 0 || block.escaped) {
        return false;
    }
    const char* const end = piece.data() + piece.size();
    const char* start = piece.data();
    const std::size_t before = count_;
    bool carriage_return = false;
    for (; block.newlines != 0; block.newlines &= block.newlines - 1) {
        const char* const stop = piece.data() + std::countr_zero(block.newlines);
        // Of an empty line, its newline is looked at.
        carriage_return |= stop[-(stop != start)] == '\r';
        batch_[count_++] = Tuple({start, static_cast<std::size_t>(stop - start)}, 1, end);
        start = stop + 1;
    }
    if (carriage_return) {
        count_ = before;
        return false;
    }
    line_ += count_ - before;
    piece.remove_prefix(static_cast<std::size_t>(start - piece.data()));
    return true;
}

// What is left of a line that was too long to be kept.
void LineParser::skip_rest(std::string_view& piece) {
    const std::size_t end = piece.find('\n');
    skipping_ = end == std::string_view::npos;
    piece.remove_prefix(skipping_ ? piece.size() : end + 1);
}

Result<> LineParser::fill(std::string_view& piece) {
    if (std::exchange(kept_done_, false)) {
        kept_.clear();
    }
    const char* const end = piece.data() + piece.size();
    while (!piece.empty() && count_ + kBlock <= kBatch) {
        if (skipping_) {
            skip_rest(piece);
            continue;
        }
        if (kept_.empty() && take_block(piece)) {
            continue;
        }
        const Line line = find_line(piece);
        if (line.length == piece.size()) {
            auto kept = keep(std::exchange(piece, {}));
            skipping_ = !kept.ok();
            return forgive(std::move(kept));
        }
        const std::string_view text = piece.substr(0, line.length);
        piece.remove_prefix(line.length + 1);
        if (!kept_.empty()) {
            auto kept = keep(text);
            return kept.ok() ? take_kept() : forgive(std::move(kept));
        }
        if (auto taken = take(text, line.escaped, end); !taken.ok()) {
            ASK_PASS(forgive(std::move(taken)));
            continue;
        }
        if (plain_ ? line.escaped : std::exchange(alone_, false)) {
            break;  // there is room for one key without its escapes
        }
    }
    return {};
}

}  // namespace ask
