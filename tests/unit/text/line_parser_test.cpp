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
Result<Tuples> parse(std::string_view text, std::size_t step, LineForm form = LineForm::kKeyValue) {
    LineParser parser("words.tsv", form);
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

std::string error_of(std::string_view text, LineForm form = LineForm::kKeyValue) {
    std::string first;
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
        auto parsed = parse(text, step, form);
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
    const std::string text = "the\n\na\tb\nwith\\nescape\r\nlast";
    const Tuples want = {{"the", 1}, {"", 1}, {"a\tb", 1}, {"with\nescape\r", 1}, {"last", 1}};
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
    CHECK(has(error_of("a\t1\r\n"), "carriage return"));
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

}  // namespace
}  // namespace ask
