// SPDX-License-Identifier: Apache-2.0
//
// Input lines: cut into any pieces they give the tuples and the error of the whole, and an escaped key is
// read as what it was. By any rules they give what a simple reading of one line after another gives.
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/text/escape.h"
#include "lib/text/line_parser.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

struct Outcome {
    std::vector<std::pair<std::string, std::int64_t>> tuples;
    std::uint64_t lines = 0;
    std::uint64_t skipped = 0;
    std::string error;
    bool operator==(const Outcome&) const = default;
};

Outcome read(const LineRules& rules, const std::vector<std::string_view>& pieces,
             std::uint64_t most_bad = 0) {
    Outcome outcome;
    BadLines bad(most_bad, nullptr);
    LineParser parser("in", rules, &bad);
    const auto sink = [&](std::span<const Tuple> tuples) -> Result<> {
        for (const Tuple& tuple : tuples) {
            require(tuple.head == Tuple(tuple.key, 0).head, "a key's head is its first bytes");
            outcome.tuples.emplace_back(tuple.key, tuple.value);
        }
        return {};
    };
    Result<> done;
    for (const std::string_view piece : pieces) {
        if (done.ok()) {
            done = parser.feed(piece, sink);
        }
    }
    if (done.ok()) {
        done = parser.finish(sink);
    }
    outcome.error = done.ok() ? "" : done.error().text();
    outcome.lines = parser.lines();
    outcome.skipped = bad.skipped();
    return outcome;
}

// The reference: slow, by the words of docs/commands.md, sharing nothing with the parser but escapes, which
// are checked by themselves.

std::vector<std::string> columns_of(const std::string& line, const Columns& columns) {
    std::vector<std::string> all(1);
    for (const char c : line) {
        if (columns.whitespace ? c == ' ' || c == '\t' : c == columns.delimiter) {
            all.emplace_back();
        } else {
            all.back() += c;
        }
    }
    if (columns.whitespace) {
        std::erase(all, "");
    }
    return all;
}

// With all digits in 128 bits, which texts of this length fit.
std::optional<std::int64_t> value_of(std::string text, std::optional<unsigned> scale) {
    const bool minus = text.starts_with('-');
    text.erase(0, minus ? 1 : 0);
    const std::size_t point = text.find('.');
    if (point != std::string::npos) {
        const std::size_t decimals = text.size() - point - 1;
        if (!scale || decimals == 0 || decimals > *scale) {
            return std::nullopt;
        }
        text.erase(point, 1);
        text.append(*scale - decimals, '0');
    } else if (!text.empty()) {
        text.append(scale.value_or(0), '0');
    }
    __extension__ __int128 value = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '9') {
            return std::nullopt;
        }
        value = std::min<decltype(value)>(value * 10 + (digit - '0'), static_cast<decltype(value)>(1) << 100);
    }
    value = minus ? -value : value;
    if (text.empty() || value > std::numeric_limits<std::int64_t>::max() ||
        value < std::numeric_limits<std::int64_t>::min()) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(value);
}

using Pair = std::optional<std::pair<std::string, std::int64_t>>;

Pair pair_of_columns(const std::string& line, const LineRules& rules) {
    const Columns& columns = *rules.columns;
    const std::vector<std::string> all = columns_of(line, columns);
    if (columns.value > all.size() || (columns.only && all.size() != 2)) {
        return std::nullopt;
    }
    std::string key;
    for (std::size_t i = 0; i < columns.key.size(); ++i) {
        if (columns.key[i] > all.size()) {
            return std::nullopt;
        }
        key += i == 0 ? "" : std::string(1, columns.whitespace ? ' ' : columns.delimiter);
        key += all[columns.key[i] - 1];
    }
    const auto value = columns.value == 0 ? 1 : value_of(all[columns.value - 1], rules.scale);
    return value ? Pair({key, *value}) : std::nullopt;
}

// Nothing: the line is malformed.
Pair pair_of(std::string line, const LineRules& rules) {
    if (line.ends_with('\r')) {
        if (!rules.crlf) {
            return std::nullopt;
        }
        line.pop_back();
    }
    if (rules.columns) {
        return pair_of_columns(line, rules);
    }
    std::optional<std::int64_t> value = 1;
    if (rules.form == LineForm::kKeyValue) {
        const std::size_t tab = line.find('\t');
        if (tab == std::string::npos) {
            return std::nullopt;
        }
        value = value_of(line.substr(tab + 1), rules.scale);
        line.resize(tab);
    }
    std::string key = rules.escapes ? "" : line;
    if (!value || (rules.escapes && append_unescaped(key, line))) {
        return std::nullopt;
    }
    return Pair({key, *value});
}

// Tuples, lines and skipped ones are as the reference has them, up to the first line that ends it.
void check_reference(const Outcome& outcome, std::string_view text, const LineRules& rules,
                     std::uint64_t most_bad) {
    Outcome want;
    bool failed = false;
    while (!text.empty() && !failed) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const Pair pair = pair_of(std::string(text.substr(0, end)), rules);
        text.remove_prefix(std::min(end + 1, text.size()));
        failed = !pair && want.skipped == most_bad;
        want.skipped += pair || failed ? 0U : 1U;
        want.lines += failed ? 0U : 1U;
        if (pair) {
            want.tuples.push_back(*pair);
        }
    }
    require(failed != outcome.error.empty(), "a line is malformed where the reference has it");
    require(want.tuples == outcome.tuples, "tuples are the reference's");
    require(want.lines == outcome.lines && want.skipped == outcome.skipped,
            "lines are counted as by the reference");
}

LineRules any_rules(Input& input) {
    LineRules rules = input.flag() ? LineForm::kKey : LineForm::kKeyValue;
    const auto flags = input.take<std::uint8_t>();
    rules.crlf = (flags & 1U) != 0;
    rules.escapes = (flags & 2U) == 0;
    if ((flags & 4U) != 0) {
        rules.scale = input.below(19);
    }
    if ((flags & 8U) != 0) {
        Columns columns;
        columns.whitespace = (flags & 16U) != 0;
        columns.delimiter = (flags & 32U) != 0 ? ',' : '\t';
        columns.key.resize(1 + input.below(3));
        for (std::uint32_t& column : columns.key) {
            column = 1 + input.below(4);
        }
        columns.value = input.below(4);
        columns.only = (flags & 64U) != 0 && columns.value > 0;
        if (columns.only) {
            columns.key = {1};
            columns.value = 2;
        }
        rules.columns = columns;
    }
    return rules;
}

void check_escape(std::string_view key) {
    const std::string text = escaped(key);
    require(text.find_first_of("\t\n\r") == std::string::npos, "an escaped key has neither TAB nor line end");
    std::string back;
    require(!append_unescaped(back, text), "what was escaped is read back");
    require(back == key, "a key is its escaped form, read back");
    std::string any;
    if (const auto bad = append_unescaped(any, key)) {
        require(*bad < key.size() && key[*bad] == '\\', "a bad escape is where its backslash is");
    }
}

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    const auto what = input.take<std::uint8_t>();
    const ask::LineForm form = (what & 1U) != 0 ? ask::LineForm::kKey : ask::LineForm::kKeyValue;
    // Inputs whose first byte is large have rules of their own; others are in the ordinary forms.
    const bool ordinary = what < 128;
    const ask::LineRules rules = ordinary ? ask::LineRules(form) : any_rules(input);
    const std::uint64_t most_bad = what % 8 / 2;
    std::vector<std::size_t> cuts(input.below(8));
    for (std::size_t& cut : cuts) {
        cut = input.take<std::uint8_t>();
    }
    const std::string_view text = input.rest();
    std::vector<std::string_view> pieces;
    std::string_view left = text;
    for (const std::size_t cut : cuts) {
        pieces.push_back(left.substr(0, cut));
        left.remove_prefix(std::min(cut, left.size()));
    }
    pieces.push_back(left);

    const Outcome whole = read(rules, {text}, most_bad);
    require(whole == read(rules, pieces, most_bad), "pieces give what the whole gives");
    check_reference(whole, text, rules, most_bad);
    const ask::LineForm written = ordinary ? form : ask::LineForm::kKeyValue;
    for (const auto& [key, value] : whole.tuples) {
        const std::string line =
            ask::escaped(key) + (written == ask::LineForm::kKey ? "" : "\t" + std::to_string(value));
        const Outcome again = read(written, {line});
        require(key.empty() || again == Outcome{{{key, value}}, 1, 0, ""},
                "a tuple, written, is read as it was");
    }
    check_escape(text);
    return 0;
}
