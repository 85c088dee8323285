// SPDX-License-Identifier: Apache-2.0
//
// What a line of input looks like (docs/commands.md), and how one that is not of the ordinary forms is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace ask {

enum class LineForm : std::uint8_t {
    kKeyValue,  // key, one TAB, value
    kKey,       // the whole line is the key; its value is 1
};

// Where key and value are in lines of columns.
struct Columns {
    char delimiter = '\t';
    bool whitespace = false;         // instead: columns are what stands between runs of blanks and TABs
    std::vector<std::uint32_t> key;  // columns from 1; the key is these, joined by the delimiter or a blank
    std::uint32_t value = 0;         // 0: none, every line counts as 1
    bool only = false;               // a line has just two columns
};

struct LineRules {
    LineRules() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): a form alone is a rule
    LineRules(LineForm of) : form(of) {}

    LineForm form = LineForm::kKeyValue;
    std::optional<Columns> columns;  // instead of the form
    bool escapes = true;             // a backslash starts an escape; in columns none does
    bool crlf = false;               // lines end in CR LF, or in LF
    std::optional<unsigned> scale;   // values have up to so many decimals, and count times 10^scale

    // An ordinary form, as ask-recv writes it: read by LineParser itself, whose speed is that of a send.
    [[nodiscard]] bool plain() const { return !columns && escapes && !crlf && !scale; }
    // Bytes of a line at most.
    [[nodiscard]] std::size_t max_line() const;
};

struct LineTuple {
    std::string_view key;
    std::int64_t value = 1;
    bool key_in_reader = false;  // instead of in the line: it holds until the next line is read
};

// What is wrong with a line, and where in it.
struct BadLine {
    std::size_t offset = 0;
    std::string what;
};
std::string bad_escape(std::string_view text);
std::string key_too_long(std::size_t size);
extern const char* const kCarriageReturn;  // at the end of a line

// Reads single lines by any rules. The ordinary forms too, but without LineParser's speed.
class LineReader {
 public:
    explicit LineReader(LineRules rules);
    // The line `text`, without its newline, as `tuple`, or what is wrong with it.
    [[nodiscard]] std::optional<BadLine> read(std::string_view text, LineTuple& tuple);

 private:
    std::optional<BadLine> read_form(std::string_view text, LineTuple& tuple);
    std::optional<BadLine> read_columns(std::string_view text, const Columns& columns, LineTuple& tuple);
    std::optional<BadLine> read_value(std::string_view text, std::size_t offset, LineTuple& tuple) const;
    std::optional<BadLine> unescape(std::string_view text, LineTuple& tuple);
    std::optional<BadLine> read_key(std::string_view text, const Columns& columns, LineTuple& tuple);
    void split(std::string_view text, const Columns& columns);

    LineRules rules_;
    std::size_t needed_ = 0;                 // columns of a line that are looked for
    std::vector<std::string_view> columns_;  // of the line
    std::string key_;                        // put together or without its escapes
};

}  // namespace ask
