// SPDX-License-Identifier: Apache-2.0
#include "lib/text/line_rules.h"

#include <algorithm>
#include <utility>

#include "lib/abi/consts.h"
#include "lib/text/decimal.h"
#include "lib/text/escape.h"

namespace ask {
namespace {

// Every byte of a key may be written as \xHH; a TAB and a value with room to spare follow.
constexpr std::size_t kMaxLine = std::size_t{4} * ASK_MAX_KEY + 256;
// Beside key and value there may be much that nobody asks for.
constexpr std::size_t kMaxLineOfColumns = std::size_t{1} << 20U;
constexpr std::string_view kBlanks = " \t";

// The text up to the next delimiter. `text` is what comes behind, nothing if this was the last.
std::string_view next_column(std::optional<std::string_view>& text, const Columns& columns) {
    const std::string_view all = *text;
    if (!columns.whitespace) {
        const std::size_t end = all.find(columns.delimiter);
        text = end == std::string_view::npos ? std::nullopt : std::optional(all.substr(end + 1));
        return all.substr(0, end);
    }
    const std::size_t end = std::min(all.find_first_of(kBlanks), all.size());
    const std::size_t next = all.find_first_not_of(kBlanks, end);
    text = next == std::string_view::npos ? std::nullopt : std::optional(all.substr(next));
    return all.substr(0, end);
}

// A line's columns; without runs of blanks around them there is one at least.
std::optional<std::string_view> first_columns(std::string_view text, const Columns& columns) {
    if (!columns.whitespace) {
        return text;
    }
    const std::size_t start = text.find_first_not_of(kBlanks);
    return start == std::string_view::npos ? std::nullopt : std::optional(text.substr(start));
}

std::size_t count_columns(std::string_view text, const Columns& columns) {
    std::size_t count = 0;
    for (auto left = first_columns(text, columns); left; ++count) {
        next_column(left, columns);
    }
    return count;
}

std::string columns_of(std::size_t count) {
    return "the line has " + std::to_string(count) + (count == 1 ? " column" : " columns");
}

}  // namespace

const char* const kCarriageReturn = "the line ends in a carriage return: --crlf takes it off";

std::string bad_escape(std::string_view text) {
    return shown(text.substr(0, 4)) + R"( is no escape: use \\ \t \n \r \0 or \xHH, or --raw)";
}

std::string key_too_long(std::size_t size) {
    return "the key has " + std::to_string(size) + " bytes; the limit is " + std::to_string(ASK_MAX_KEY);
}

std::size_t LineRules::max_line() const {
    return columns ? kMaxLineOfColumns : kMaxLine;
}

LineReader::LineReader(LineRules rules) : rules_(std::move(rules)) {
    if (rules_.columns) {
        needed_ = rules_.columns->value;
        for (const std::uint32_t column : rules_.columns->key) {
            needed_ = std::max<std::size_t>(needed_, column);
        }
    }
}

std::optional<BadLine> LineReader::read(std::string_view text, LineTuple& tuple) {
    tuple = {};
    if (text.size() > rules_.max_line()) {
        return BadLine{rules_.max_line(),
                       "the line is longer than " + std::to_string(rules_.max_line()) + " bytes"};
    }
    if (text.ends_with('\r')) {
        if (!rules_.crlf) {
            return BadLine{text.size() - 1, kCarriageReturn};
        }
        text.remove_suffix(1);
    }
    auto bad = rules_.columns ? read_columns(text, *rules_.columns, tuple) : read_form(text, tuple);
    if (!bad && tuple.key.size() > ASK_MAX_KEY) {
        return BadLine{0, key_too_long(tuple.key.size())};
    }
    return bad;
}

std::optional<BadLine> LineReader::read_form(std::string_view text, LineTuple& tuple) {
    if (rules_.form == LineForm::kKey) {
        return unescape(text, tuple);
    }
    const std::size_t tab = text.find('\t');
    if (tab == std::string_view::npos) {
        return BadLine{text.size(), "no TAB between key and value"};
    }
    const std::size_t second = text.find('\t', tab + 1);
    if (second != std::string_view::npos) {
        return BadLine{second, rules_.escapes
                                   ? R"(a second TAB: write a TAB within a key as \t)"
                                   : "a second TAB: say with --key and --value which columns count"};
    }
    if (auto bad = read_value(text.substr(tab + 1), tab + 1, tuple)) {
        return bad;
    }
    return unescape(text.substr(0, tab), tuple);
}

std::optional<BadLine> LineReader::read_value(std::string_view text, std::size_t offset,
                                              LineTuple& tuple) const {
    auto value = rules_.scale ? parse_scaled(text, *rules_.scale) : parse_int64(text);
    if (!value) {
        return BadLine{offset, value.error().text()};
    }
    tuple.value = *value;
    return std::nullopt;
}

std::optional<BadLine> LineReader::unescape(std::string_view text, LineTuple& tuple) {
    tuple.key = text;
    if (!rules_.escapes || text.find('\\') == std::string_view::npos) {
        return std::nullopt;
    }
    key_.clear();
    if (const auto bad = append_unescaped(key_, text)) {
        return BadLine{*bad, bad_escape(text.substr(*bad))};
    }
    tuple.key = key_;
    tuple.key_in_reader = true;
    return std::nullopt;
}

// The columns that are needed, and one more where there must be none.
void LineReader::split(std::string_view text, const Columns& columns) {
    columns_.clear();
    const std::size_t most = needed_ + (columns.only ? 1 : 0);
    for (auto left = first_columns(text, columns); left && columns_.size() < most;) {
        columns_.push_back(next_column(left, columns));
    }
}

std::optional<BadLine> LineReader::read_columns(std::string_view text, const Columns& columns,
                                                LineTuple& tuple) {
    split(text, columns);
    if (columns.only && columns_.size() > needed_) {
        return BadLine{static_cast<std::size_t>(columns_[needed_].data() - text.data()),
                       columns_of(count_columns(text, columns)) +
                           ", not just key and value: say with --key and --value which count"};
    }
    if (columns.value > columns_.size()) {
        return BadLine{text.size(),
                       columns_of(columns_.size()) + ", the value is in " + std::to_string(columns.value)};
    }
    if (auto bad = read_key(text, columns, tuple)) {
        return bad;
    }
    if (columns.value == 0) {
        return std::nullopt;
    }
    const std::string_view value = columns_[columns.value - 1];
    return read_value(value, static_cast<std::size_t>(value.data() - text.data()), tuple);
}

std::optional<BadLine> LineReader::read_key(std::string_view text, const Columns& columns, LineTuple& tuple) {
    for (const std::uint32_t column : columns.key) {
        if (column > columns_.size()) {
            return BadLine{text.size(),
                           columns_of(columns_.size()) + ", the key is in " + std::to_string(column)};
        }
    }
    tuple.key = columns_[columns.key.front() - 1];
    if (columns.key.size() == 1) {
        return std::nullopt;
    }
    key_ = tuple.key;
    for (std::size_t i = 1; i < columns.key.size(); ++i) {
        key_ += columns.whitespace ? ' ' : columns.delimiter;
        key_ += columns_[columns.key[i] - 1];
    }
    tuple.key = key_;
    tuple.key_in_reader = true;
    return std::nullopt;
}

}  // namespace ask
