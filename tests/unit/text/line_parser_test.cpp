// SPDX-License-Identifier: Apache-2.0
#include "lib/text/line_parser.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/consts.h"
#include "lib/text/escape.h"

namespace ask {
namespace {

using Tuples = std::vector<std::pair<std::string, std::int64_t>>;

// Feeds `text` in pieces of `step` bytes.
Result<Tuples> parse(std::string_view text, std::size_t step, const LineRules& rules = LineForm::kKeyValue,
                     BadLines* bad = nullptr) {
    LineParser parser("words.tsv", rules, bad);
    Tuples tuples;
    const auto sink = [&tuples](std::span<const Tuple> lines) {
        for (const Tuple& line : lines) {
            CHECK(line.head == Tuple(line.key, 0).head);
            tuples.emplace_back(line.key, line.value);
        }
        return Result<>();
    };
    for (; !text.empty(); text.remove_prefix(std::min(step, text.size()))) {
        if (auto fed = parser.feed(text.substr(0, step), sink); !fed) {
            return std::move(fed).error();
        }
    }
    if (auto done = parser.finish(sink); !done) {
        return std::move(done).error();
    }
    return tuples;
}

std::string error_of(std::string_view text, const LineRules& rules = LineForm::kKeyValue) {
    std::string first;
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
        auto parsed = parse(text, step, rules);
        REQUIRE_FALSE(parsed.ok());
        CHECK(parsed.error().code() == Errc::kInput);
        if (first.empty()) {
            first = parsed.error().text();
        }
        CHECK(parsed.error().text() == first);
    }
    return first;
}

bool starts(const std::string& text, std::string_view start) {
    return text.starts_with(start);
}
bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("lines become tuples, however the input is cut") {
    const std::string text = "a\t1\n\t-2\nb\\tc\\0\t9223372036854775807\nlast\t-9223372036854775808";
    const Tuples want = {{"a", 1}, {"", -2}, {std::string("b\tc\0", 4), INT64_MAX}, {"last", INT64_MIN}};
    for (std::size_t step = 1; step <= text.size() + 1; ++step) {
        auto parsed = parse(text, step);
        REQUIRE(parsed.ok());
        REQUIRE(*parsed == want);
    }
    CHECK(parse("", 1)->empty());
}

TEST_CASE("for counting, a line is a key as it stands") {
    const std::string text = "the\n\na\tb\nwith\\nescape\\r\n\rc\nlast";
    const Tuples want = {{"the", 1}, {"", 1}, {"a\tb", 1}, {"with\nescape\r", 1}, {"\rc", 1}, {"last", 1}};
    for (std::size_t step = 1; step <= text.size(); ++step) {
        auto parsed = parse(text, step, LineForm::kKey);
        REQUIRE(parsed.ok());
        REQUIRE(*parsed == want);
    }
}

TEST_CASE("errors name file, line and column and what is wrong") {
    CHECK(starts(error_of("a\t1\nno tab\n"), "words.tsv:2:7: no TAB"));
    CHECK(starts(error_of("a\t1\n\n"), "words.tsv:2:1: no TAB"));
    CHECK(starts(error_of("a\t\n"), "words.tsv:1:3: the value is empty"));
    CHECK(starts(error_of("a\t1\nkey\t1x\n"), "words.tsv:2:5: value '1x' is not"));
    CHECK(starts(error_of("a\t+1\n"), "words.tsv:1:3: value '+1' is not"));
    CHECK(starts(error_of("a\t 1\n"), "words.tsv:1:3: value ' 1' is not"));
    CHECK(starts(error_of("a\t1.5\n"), "words.tsv:1:3: value '1.5' is not"));
    CHECK(starts(error_of("a\t-\n"), "words.tsv:1:3: value '-' is not"));
    CHECK(starts(error_of("a\tb\t1\n"), "words.tsv:1:4: a second TAB"));
    CHECK(starts(error_of("a\\qb\t1\n"), "words.tsv:1:2: '\\\\qb' is no escape"));
    CHECK(starts(error_of("ok\na\\", LineForm::kKey), "words.tsv:2:2: "));
}

TEST_CASE("values past int64 say what the limits are") {
    const std::string high = error_of("a\t9223372036854775808\n");
    CHECK(starts(high, "words.tsv:1:3: value '9223372036854775808' is out of range"));
    CHECK(has(high, "-9223372036854775808"));
    CHECK(has(high, "9223372036854775807"));
    CHECK(has(error_of("a\t-9223372036854775809\n"), "out of range"));
    const std::string digits(100, '9');
    CHECK(has(error_of("a\t" + digits + "\n"), "..."));
}

TEST_CASE("keys of any length, with escapes here and there, come as they were written") {
    std::mt19937_64 random(7);
    for (const LineForm form : {LineForm::kKey, LineForm::kKeyValue}) {
        std::string text;
        Tuples want;
        for (int i = 0; i < 3000; ++i) {
            std::string key(random() % (random() % 20 == 0 ? 200 : 8), '\0');
            for (char& c : key) {
                c = random() % 400 == 0 ? '\\' : static_cast<char>(1 + random() % 255);
                c = c == '\n' || (c == '\\' && random() % 4 != 0) ? 'n' : c;
            }
            want.emplace_back(key, form == LineForm::kKey ? 1 : i);
            append_escaped(text, key);
            text += form == LineForm::kKey ? "\n" : "\t" + std::to_string(i) + "\n";
        }
        for (const std::size_t step : {1U, 7U, 64U, 65U, 1000U, 1U << 20U}) {
            const auto got = parse(text, step, form);
            REQUIRE(got.ok());
            CHECK(*got == want);
        }
    }
}

TEST_CASE("carriage returns are not swallowed") {
    CHECK(has(error_of("a\t1\r\n"), "words.tsv:1:3: the value ends in a carriage return: --crlf"));
    // Wherever the line is: within a block of short ones, or longer than that.
    const std::string says = "the line ends in a carriage return: --crlf takes it off";
    CHECK(error_of("the\r\n", LineForm::kKey) == "words.tsv:1:4: " + says);
    CHECK(error_of("a\n\nthe\r\n" + std::string(100, 'b') + "\n", LineForm::kKey) ==
          "words.tsv:3:4: " + says);
    CHECK(error_of("a\n" + std::string(100, 'b') + "\r\nc\n", LineForm::kKey) == "words.tsv:2:101: " + says);
    CHECK(error_of("a\nlast\r", LineForm::kKey) == "words.tsv:2:5: " + says);
    CHECK(parse("a\r\t1\n", 100)->front().first == "a\r");
}

TEST_CASE("keys up to the limit pass, whatever way they are written; longer ones do not") {
    const std::string longest(ASK_MAX_KEY, 'k');
    CHECK(parse(longest + "\t1\n", 1 << 16)->front().first == longest);
    std::string hex;
    for (unsigned i = 0; i < ASK_MAX_KEY; ++i) {
        hex += "\\xfe";
    }
    CHECK(parse(hex + "\t-9223372036854775808\n", 1000)->front().first == std::string(ASK_MAX_KEY, '\xfe'));
    CHECK(has(error_of("a\t1\n" + longest + "k\t1\n"),
              "words.tsv:2:1: the key has 65536 bytes; the limit is 65535"));
}

TEST_CASE("a line without an end does not fill the memory") {
    LineParser parser("endless", LineForm::kKey);
    const std::string piece(1 << 16, 'x');
    const auto sink = [](std::span<const Tuple>) { return Result<>(); };
    auto fed = parser.feed(piece, sink);
    for (int i = 0; i < 100 && fed.ok(); ++i) {
        fed = parser.feed(piece, sink);
    }
    REQUIRE_FALSE(fed.ok());
    CHECK(has(fed.error().text(), "endless:1:"));
}

TEST_CASE("the sink's error ends the parsing") {
    LineParser parser("x", LineForm::kKeyValue);
    std::string text;
    for (int i = 0; i < 10'000; ++i) {
        text += "a\t1\n";
    }
    int calls = 0;
    auto fed = parser.feed(text, [&calls](std::span<const Tuple>) -> Result<> {
        return ++calls == 2 ? Result<>(Error(Errc::kAborted, "enough")) : Result<>();
    });
    REQUIRE_FALSE(fed.ok());
    CHECK(fed.error().text() == "enough");
    CHECK(calls == 2);
}

LineRules columns(std::vector<std::uint32_t> key, std::uint32_t value, char delimiter = ',') {
    LineRules rules;
    rules.columns = Columns{.delimiter = delimiter, .key = std::move(key), .value = value};
    return rules;
}

LineRules blanks(std::vector<std::uint32_t> key, std::uint32_t value) {
    LineRules rules = columns(std::move(key), value);
    rules.columns->whitespace = true;
    return rules;
}

// What they are read as, however the text is cut.
Tuples parse_all(std::string_view text, const LineRules& rules) {
    auto whole = parse(text, text.size(), rules);
    REQUIRE_MESSAGE(whole.ok(), (whole.ok() ? "" : whole.error().text()));
    for (const std::size_t step : {1U, 3U, 64U}) {
        CHECK(*parse(text, step, rules) == *whole);
    }
    return *std::move(whole);
}

TEST_CASE("columns are found by their delimiter, and several make a key") {
    CHECK(parse_all("x,a,1\nx,b\\t,-2,rest\n,,3", columns({2}, 3)) ==
          Tuples{{"a", 1}, {"b\\t", -2}, {"", 3}});
    CHECK(parse_all("a,1,b\nc,2,d\n", columns({3, 1}, 2)) == Tuples{{"b,a", 1}, {"d,c", 2}});
    CHECK(parse_all("7\x01"
                    "b\n",
                    columns({2}, 1, '\x01')) == Tuples{{"b", 7}});
    // No value: every line counts as 1. Quotes are bytes.
    CHECK(parse_all("a,\"b,c\"\nd,e\n", columns({2}, 0)) == Tuples{{"\"b", 1}, {"e", 1}});
    CHECK(parse_all("a 1,2\n", columns({1, 1}, 2)) == Tuples{{"a 1,a 1", 2}});
}

TEST_CASE("runs of blanks and TABs divide columns, as awk has it") {
    CHECK(parse_all("  a \t 1\nb\t2  \n", blanks({1}, 2)) == Tuples{{"a", 1}, {"b", 2}});
    CHECK(parse_all("a  b 1\n", blanks({2, 1}, 3)) == Tuples{{"b a", 1}});
    CHECK(error_of("a 1\n \t\n", blanks({1}, 2)) ==
          "words.tsv:2:3: the line has 0 columns, the value is in 2");
}

TEST_CASE("columns that a line lacks, or has too many of, say how many there are") {
    CHECK(error_of("a,1\nb\n", columns({1}, 2)) == "words.tsv:2:2: the line has 1 column, the value is in 2");
    CHECK(error_of("a,1\n", columns({1, 4}, 2)) == "words.tsv:1:4: the line has 2 columns, the key is in 4");
    CHECK(error_of("x,a,1.5\n", columns({2}, 3)) == "words.tsv:1:5: value '1.5' is not a decimal integer");
    CHECK(error_of("a,1\r\n", columns({2}, 0)) ==
          "words.tsv:1:4: the line ends in a carriage return: --crlf takes it off");
    LineRules two = columns({1}, 2);
    two.columns->only = true;
    CHECK(parse_all("a,1\n", two) == Tuples{{"a", 1}});
    CHECK(starts(error_of("a,1,2\n", two), "words.tsv:1:5: the line has 3 columns, not just key and value"));
    const std::string longest(ASK_MAX_KEY, 'k');
    CHECK(parse(longest + ",1\n", 1000, columns({1}, 2))->front().first == longest);
    CHECK(has(error_of(longest + "k,1\n", columns({1}, 2)), "words.tsv:1:1: the key has 65536 bytes"));
    CHECK(has(error_of("a,1," + std::string(1U << 20U, 'x') + "\n", columns({1}, 2)),
              "words.tsv:1:1048577: the line is longer than 1048576 bytes"));
}

TEST_CASE("a carriage return belongs to the line end if asked for, a backslash to the key") {
    LineRules crlf = LineForm::kKey;
    crlf.crlf = true;
    CHECK(parse_all("a\r\nb\n\r\nc\r\r\nd\\t\r\nlast\r", crlf) ==
          Tuples{{"a", 1}, {"b", 1}, {"", 1}, {"c\r", 1}, {"d\t", 1}, {"last", 1}});
    LineRules values = LineForm::kKeyValue;
    values.crlf = true;
    CHECK(parse_all("a\t1\r\nb\\\\\t2\r\n", values) == Tuples{{"a", 1}, {"b\\", 2}});
    CHECK(error_of("a\t1\t2\r\n", values) == error_of("a\t1\t2\n"));
    CHECK(error_of("a\\q\t1\r\n", values) == error_of("a\\q\t1\n"));
    LineRules raw = LineForm::kKeyValue;
    raw.escapes = false;
    CHECK(parse_all("C:\\temp\t1\n\\\t2\n", raw) == Tuples{{"C:\\temp", 1}, {"\\", 2}});
}

TEST_CASE("scaled values are exact, and what does not fit is said") {
    LineRules cents = LineForm::kKeyValue;
    cents.scale = 2;
    CHECK(parse_all("a\t12.34\nb\t-0.5\nc\t7\n", cents) == Tuples{{"a", 1234}, {"b", -50}, {"c", 700}});
    CHECK(error_of("a\t1.234\n", cents) == "words.tsv:1:3: value '1.234' has 3 decimals; --scale takes 2");
    LineRules column = columns({1}, 2);
    column.scale = 0;
    CHECK(parse_all("a,3\n", column) == Tuples{{"a", 3}});
    CHECK(has(error_of("a,3.0\n", column), "words.tsv:1:3: value '3.0' has 1 decimals"));
}

TEST_CASE("malformed lines are skipped up to a limit, counted, and the first ones shown") {
    const std::string text = "a\t1\nbad\n\\q\t1\nb\t2\nc\tx\nlast";
    for (const std::size_t step : {1U, 2U, 7U, 100U}) {
        std::vector<std::string> shown;
        BadLines bad(4, [&shown](const std::string& error) { shown.push_back(error); });
        for (int run = 0; run < 2; ++run) {  // the second time they are counted anew, and not shown again
            bad.begin();
            auto got = parse(text, step, LineForm::kKeyValue, &bad);
            REQUIRE(got.ok());
            CHECK(*got == Tuples{{"a", 1}, {"b", 2}});
            CHECK(bad.skipped() == 4);
            REQUIRE(shown.size() == 4);
            CHECK(starts(shown[0], "words.tsv:2:4: no TAB"));
            CHECK(starts(shown[1], "words.tsv:3:1: "));
            CHECK(starts(shown[2], "words.tsv:5:3: value 'x'"));
            CHECK(starts(shown[3], "words.tsv:6:5: no TAB"));
        }
        BadLines fewer(3, nullptr);
        auto got = parse(text, step, LineForm::kKeyValue, &fewer);
        REQUIRE_FALSE(got.ok());
        CHECK(got.error().code() == Errc::kInput);
        CHECK(got.error().text() ==
              "words.tsv:6:5: no TAB between key and value (3 malformed lines were skipped before, the limit "
              "of "
              "--skip-bad)");
    }
}

TEST_CASE("of many malformed lines a few are shown; one without an end is one") {
    std::string text;
    for (int i = 0; i < 1000; ++i) {
        text += "bad\nk\t1\n";
    }
    text += std::string(3U << 20U, 'x') + "\nend\t1\n";
    for (const std::size_t step : {std::size_t{100}, std::size_t{1} << 16U, text.size()}) {
        int shown = 0;
        BadLines bad(2000, [&shown](const std::string&) { ++shown; });
        auto got = parse(text, step, LineForm::kKeyValue, &bad);
        REQUIRE(got.ok());
        CHECK(got->size() == 1001);
        CHECK(bad.skipped() == 1001);
        CHECK(shown == 5);
        CHECK(got->back().first == "end");
    }
}

}  // namespace
}  // namespace ask
