// SPDX-License-Identifier: Apache-2.0
#include "lib/text/escape.h"

#include <random>

#include <doctest/doctest.h>

namespace ask {
namespace {

std::optional<std::string> unescaped(std::string_view text) {
    std::string out;
    if (append_unescaped(out, text)) {
        return std::nullopt;
    }
    return out;
}

TEST_CASE("only control bytes, 0x7f and backslash are escaped") {
    CHECK(escaped("plain, \"quoted\" and Größe") == "plain, \"quoted\" and Größe");
    CHECK(escaped("a\\b\tc\nd\re") == "a\\\\b\\tc\\nd\\re");
    CHECK(escaped(std::string_view("\0\x01\x1f\x7f\x80\xff", 6)) == "\\0\\x01\\x1f\\x7f\x80\xff");
    CHECK(escaped("").empty());
    // What a terminal takes for ESC [ in UTF-8, beside what it does not.
    CHECK(escaped("\xc2\x9b"
                  "31m\xc2\x80\xc2\x9f") == "\\xc2\\x9b31m\\xc2\\x80\\xc2\\x9f");
    CHECK(escaped("\xc2\xa0\xc2\xb0\xc3\x9b\xc2") == "\xc2\xa0\xc2\xb0\xc3\x9b\xc2");
    CHECK(escaped("\x9b\xc2"
                  "\x1b\xc2\xc2\x9b") == "\x9b\xc2\\x1b\xc2\\xc2\\x9b");
}

TEST_CASE("every escape is understood, hexadecimal in either case") {
    CHECK(unescaped(R"(\\\t\n\r)") == "\\\t\n\r");
    CHECK(unescaped(R"(\0\x00)") == std::string(2, '\0'));
    CHECK(unescaped(R"(\x4a\x4A\xfF)") == "JJ\xff");
    CHECK(unescaped(R"(\01)") == std::string("\0001", 2));
    CHECK(unescaped("raw\rcontrol\x01") == "raw\rcontrol\x01");
}

TEST_CASE("what is no escape is found where it stands") {
    std::string out;
    CHECK(append_unescaped(out, R"(ab\q)") == 2);
    CHECK(append_unescaped(out, R"(\)") == 0);
    CHECK(append_unescaped(out, R"(a\\b\)") == 4);
    CHECK(append_unescaped(out, R"(\x)") == 0);
    CHECK(append_unescaped(out, R"(\x1)") == 0);
    CHECK(append_unescaped(out, R"(\x1g)") == 0);
    CHECK(append_unescaped(out, R"(\T)") == 0);
}

TEST_CASE("what is UTF-8") {
    for (const std::string_view text :
         {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf",
          "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
        CHECK(is_utf8(text));
        CHECK_FALSE(is_utf8(std::string(text) + "\x80"));
    }
    // Too long, cut short, surrogates, beyond the last character.
    for (const std::string_view text : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x7f", "\xe0\x9f\xbf",
                                        "\xe1\x80", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80",
                                        "\xf0\x90\x80\x7f", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
        CHECK_FALSE(is_utf8(text));
    }
}

TEST_CASE("keys that are no UTF-8 are written in ASCII where a format takes no other bytes") {
    const auto text_of = [](std::string_view key) {
        std::string text;
        append_escaped_utf8(text, key);
        return text;
    };
    CHECK(text_of("\xc3\xa9\t\xc2\x9b") == "\xc3\xa9\\t\\xc2\\x9b");
    CHECK(text_of("\xc3\xa9\\\xff") == R"(\xc3\xa9\\\xff)");
    std::mt19937_64 random(43);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes(random() % 6, '\0');
        for (char& c : bytes) {
            // Often continuations, and what begins a sequence.
            c = static_cast<char>(random() % 2 == 0 ? 0x80 + random() % 0x80 : random());
        }
        const std::string text = text_of(bytes);
        REQUIRE(is_utf8(text));
        REQUIRE(unescaped(text) == bytes);
    }
}

TEST_CASE("any bytes come back as they were, in one line without a TAB") {
    std::mt19937_64 random(42);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes(random() % 40, '\0');
        for (char& c : bytes) {
            c = static_cast<char>(random());
        }
        const std::string text = escaped(bytes);
        REQUIRE(text.find_first_of("\t\n") == std::string::npos);
        REQUIRE(unescaped(text) == bytes);
    }
}

}  // namespace
}  // namespace ask
