// SPDX-License-Identifier: Apache-2.0
//
// Reads tuples out of text lines, `key<TAB>value` or, for counting, a key a line (docs/commands.md). Bytes go
// in as they come from a file; nothing here does I/O, and no line costs an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/result.h"

namespace ask {

// Parses a whole decimal integer, `-?[0-9]+`, within int64. The error says what is wrong with it.
Result<std::int64_t> parse_int64(std::string_view text);

enum class LineForm : std::uint8_t {
    kKeyValue,  // key, one TAB, value
    kKey,       // the whole line is the key; its value is 1
};

// One tuple of the input, borrowed until the next line is read.
struct Tuple {
    std::string_view key;
    std::int64_t value = 0;
};

// One input, fed piece by piece. Errors (kInput) start with "NAME:LINE:COLUMN: "; lines and columns count
// from 1, columns in bytes.
class LineParser {
 public:
    // `name` is what errors call the input.
    LineParser(std::string name, LineForm form);

    // Takes the next piece of the input and calls `sink(key, value)`, which returns Result<>, for each line
    // that is complete. Ends at the first error, the sink's included.
    template <typename Sink>
    Result<> feed(std::string_view piece, Sink&& sink);
    // The input has ended: a last line without a newline is a line too.
    template <typename Sink>
    Result<> finish(Sink&& sink);

    [[nodiscard]] std::uint64_t lines() const { return line_; }

 private:
    // Parses the line `text` (without newline), number line_ + 1.
    Result<Tuple> parse(std::string_view text);
    [[nodiscard]] Result<std::string_view> key_of(std::string_view text);
    // Keeps the start of a line whose end has not come.
    Result<> keep(std::string_view start);
    [[nodiscard]] Error error_at(std::size_t offset, const std::string& what) const;

    template <typename Sink>
    Result<> line(std::string_view text, Sink& sink) {
        auto tuple = parse(text);
        if (!tuple) {
            return std::move(tuple).error();
        }
        ++line_;
        return sink(tuple->key, tuple->value);
    }

    std::string name_;
    LineForm form_;
    std::uint64_t line_ = 0;  // lines done
    std::string kept_;        // start of the line under way
    std::string unescaped_;   // the last key that had escapes
};

template <typename Sink>
Result<> LineParser::feed(std::string_view piece, Sink&& sink) {
    while (!piece.empty()) {
        const std::size_t length = piece.find('\n');
        if (length == std::string_view::npos) {
            return keep(piece);
        }
        std::string_view text = piece.substr(0, length);
        piece.remove_prefix(length + 1);
        if (!kept_.empty()) {
            if (auto kept = keep(text); !kept) {
                return kept;
            }
            text = kept_;
        }
        if (auto done = line(text, sink); !done) {
            return done;
        }
        kept_.clear();
    }
    return {};
}

template <typename Sink>
Result<> LineParser::finish(Sink&& sink) {
    if (kept_.empty()) {
        return {};
    }
    auto done = line(kept_, sink);
    kept_.clear();
    return done;
}

}  // namespace ask
