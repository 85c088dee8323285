// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/line_flags.h"

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/abi/limits.h"
#include "lib/text/decimal.h"
#include "lib/text/escape.h"

namespace ask::cli {
namespace {

constexpr std::uint32_t kMaxColumn = ASK_MAX_COLUMN;
constexpr std::size_t kMaxKeyColumns = 16;
constexpr std::uint64_t kMostSkipped = std::uint64_t{1} << 62U;

Error usage(const std::string& text) {
    return {Errc::kUsage, text};
}

// Which byte it is, or runs of blanks.
Result<> read_delimiter(const std::string& text, Columns& columns) {
    columns.whitespace = text == "whitespace";
    std::string byte;
    if (columns.whitespace || text.empty()) {
        return {};
    }
    if (text == "\\") {
        byte = text;
    } else if (append_unescaped(byte, text) || byte.size() != 1) {
        return usage("--delimiter " + shown(text) +
                     " is not one byte (or \\t, \\xHH), nor the word whitespace");
    }
    if (byte == "\n" || byte == "\r") {
        return usage("--delimiter " + shown(text) + " ends lines: columns are within one");
    }
    columns.delimiter = byte.front();
    return {};
}

Result<std::vector<std::uint32_t>> read_key_columns(const std::string& text) {
    std::vector<std::uint32_t> columns;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (true) {
        std::uint32_t column = 0;
        const auto [stop, error] = std::from_chars(at, end, column);
        if (error != std::errc() || column == 0 || column > kMaxColumn || (stop != end && *stop != ',')) {
            return usage("--key " + shown(text) + " is not N or N,M...: columns, from 1 to " +
                         std::to_string(kMaxColumn));
        }
        columns.push_back(column);
        if (columns.size() > kMaxKeyColumns) {
            return usage("--key takes " + std::to_string(kMaxKeyColumns) + " columns at most");
        }
        if (stop == end) {
            return columns;
        }
        at = stop + 1;
    }
}

// What goes with what.
Result<> check(const LineFlags& flags) {
    if (flags.count && flags.value) {
        return usage("--count takes every line as 1: leave out --value, or --count");
    }
    if (flags.count && flags.scale) {
        return usage("--count takes every line as 1: leave out --scale, or --count");
    }
    if (flags.count && !flags.delimiter.empty() && flags.key.empty()) {
        return usage("--count with --delimiter needs --key N: the column that is the key");
    }
    if (flags.value && flags.key.empty()) {
        return usage("--value needs --key N: the column that is the key");
    }
    if (!flags.key.empty() && !flags.value && !flags.count) {
        return usage("--key needs --value N, the column that is the value, or --count");
    }
    return {};
}

Result<Columns> read_columns(const LineFlags& flags) {
    Columns columns;
    ASK_PASS(read_delimiter(flags.delimiter, columns));
    if (flags.key.empty()) {
        columns.key = {1};
        columns.value = 2;
        columns.only = true;
        return columns;
    }
    auto key = read_key_columns(flags.key);
    ASK_PASS(key);
    columns.key = *std::move(key);
    columns.value = flags.value.value_or(0);
    return columns;
}

}  // namespace

void add_line_flags(CLI::App& app, LineFlags& flags) {
    app.add_flag("--count", flags.count, "every line, or its --key, is a key and counts as 1");
    app.add_option(
           "--delimiter", flags.delimiter,
           "lines are columns, between which this byte stands (\\t and \\xHH too), or runs of blanks: "
           "whitespace")
        ->check([](const std::string& text) {
            return text.empty() ? std::string("is one byte, or the word whitespace") : std::string();
        })
        ->type_name("CHAR");
    app.add_option("--key", flags.key, "the column that is the key, from 1; several are joined")
        ->type_name("N[,M...]");
    app.add_option("--value", flags.value, "the column that is the value")
        ->check(CLI::Range(1U, kMaxColumn))
        ->type_name("N");
    app.add_option("--scale", flags.scale, "values have up to K decimals, and count times 10^K")
        ->check(CLI::Range(0U, kMaxScale))
        ->type_name("K");
    app.add_flag("--raw", flags.raw, "a backslash is a byte like any other, as it always is in columns");
    app.add_flag("--crlf", flags.crlf, "lines end in CR LF: the carriage return is no part of them");
    app.add_option("--skip-bad", flags.skip_bad,
                   "skip, count and (the first few) show up to N malformed lines instead of failing")
        ->check(CLI::Range(std::uint64_t{0}, kMostSkipped))
        ->type_name("N")
        ->capture_default_str();
    app.add_flag("--no-decompress", flags.no_decompress,
                 "take all bytes as they are, also what is gzip or zstd by its content, or no text at all");
}

Result<InputRules> input_rules(const LineFlags& flags) {
    ASK_PASS(check(flags));
    InputRules rules;
    rules.lines.form = flags.count ? LineForm::kKey : LineForm::kKeyValue;
    rules.lines.escapes = !flags.raw;
    rules.lines.crlf = flags.crlf;
    rules.lines.scale = flags.scale;
    rules.content.as_is = flags.no_decompress;
    if (!flags.delimiter.empty() || !flags.key.empty()) {
        auto columns = read_columns(flags);
        ASK_PASS(columns);
        rules.lines.columns = *std::move(columns);
    } else {
        rules.content.refuse_zeros = flags.count && !flags.no_decompress;
    }
    return rules;
}

}  // namespace ask::cli
