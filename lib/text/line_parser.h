// SPDX-License-Identifier: Apache-2.0
//
// Reads tuples out of text lines, `key<TAB>value` or, for counting, a key a line, or by other rules
// (docs/commands.md). Bytes go in as they come from a file; nothing here does I/O, and no line costs an
// allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/result.h"
#include "lib/text/bad_lines.h"
#include "lib/text/line_rules.h"
#include "lib/tuples/tuple.h"

namespace ask {

// One input, fed piece by piece. Errors (kInput) start with "NAME:LINE:COLUMN: "; lines and columns count
// from 1, columns in bytes.
class LineParser {
 public:
    // `name` is what errors call the input. Malformed lines that `bad` skips are no errors.
    LineParser(std::string name, LineRules rules, BadLines* bad = nullptr);

    // Takes the next piece of the input and calls `sink(std::span<const Tuple>)`, which returns Result<>, for
    // its lines, several at a time and in order. Ends at the first error, the sink's included; what came
    // before a malformed line has been given to the sink.
    template <typename Sink>
    Result<> feed(std::string_view piece, Sink&& sink);
    // The input has ended: a last line without a newline is a line too.
    template <typename Sink>
    Result<> finish(Sink&& sink);

    [[nodiscard]] std::uint64_t lines() const { return line_; }

 private:
    static constexpr std::size_t kBatch = 128;

    // Reads lines from the front of `piece` into batch_ until that is full, a key needs memory of its own
    // that only one can have, or no whole line is left.
    Result<> fill(std::string_view& piece);
    // The line `text` (without newline), number line_ + 1, into batch_. `escaped`: it has a backslash. `end`:
    // of what can be read behind it.
    Result<> take(std::string_view text, bool escaped, const char* end);
    Result<> take_by_rules(std::string_view text, const char* end);
    Result<> take_kept();
    bool take_block(std::string_view& piece);
    void skip_rest(std::string_view& piece);
    [[nodiscard]] Result<std::string_view> key_of(std::string_view text, bool escaped);
    Result<std::string_view> split(std::string_view text, std::int64_t& value);
    // Keeps the start of a line whose end has not come.
    Result<> keep(std::string_view start);
    // What has become of a line: its error, unless that is skipped.
    Result<> forgive(Result<> taken);
    [[nodiscard]] Error error_at(std::size_t offset, const std::string& what) const;

    template <typename Sink>
    Result<> hand_on(Result<> filled, Sink& sink) {
        const std::size_t count = std::exchange(count_, 0);
        if (count > 0) {
            ASK_PASS(sink(std::span<const Tuple>(batch_.data(), count)));
        }
        return filled;
    }

    std::string name_;
    LineForm form_;
    bool plain_;   // an ordinary form; else `reader_` reads the lines
    bool blocks_;  // of several keys are looked at together
    std::size_t max_line_;
    LineReader reader_;
    BadLines* bad_;
    bool alone_ = false;      // the key of the reader's last line lies in the reader, which has room for one
    bool skipping_ = false;   // the rest of a line that was skipped is still to come
    std::uint64_t line_ = 0;  // lines done
    std::string kept_;        // start of the line under way
    bool kept_done_ = false;  // it has been taken: its bytes are needed no longer than the batch
    std::string unescaped_;   // the last key that had escapes
    std::array<Tuple, kBatch> batch_;
    std::size_t count_ = 0;  // tuples in it
};

template <typename Sink>
Result<> LineParser::feed(std::string_view piece, Sink&& sink) {
    while (!piece.empty()) {
        ASK_PASS(hand_on(fill(piece), sink));
    }
    return {};
}

template <typename Sink>
Result<> LineParser::finish(Sink&& sink) {
    if (kept_.empty() || kept_done_) {
        return {};
    }
    return hand_on(take_kept(), sink);
}

}  // namespace ask
