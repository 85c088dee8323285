// SPDX-License-Identifier: Apache-2.0
#include "lib/text/clean.h"

#include <string>

#include <doctest/doctest.h>

namespace ask {
namespace {

TEST_CASE("text of others moves no cursor, begins no line and turns no direction") {
    CHECK(clean_text("plain text: 'it', \\ and ~") == "plain text: 'it', \\ and ~");
    CHECK(clean_text("a\nb\r\x1b[31m\x7f") == "a\\x0ab\\x0d\\x1b[31m\\x7f");
    CHECK(clean_text(std::string("a\0b", 3)) == "a\\x00b");
    // A C1 control, a right-to-left override, and bytes that are no UTF-8.
    CHECK(clean_text("\xc2\x9b \xe2\x80\xae \xff") == "\\xc2\\x9b \\xe2\\x80\\xae \\xff");
    CHECK(clean_lines("one\ntwo\x1b") == "one\n  two\\x1b");
}

TEST_CASE("it is bounded, cut between bytes, and clean text stays as it is") {
    CHECK(clean_name(std::string(kLongestName, 'x')) == std::string(kLongestName, 'x'));
    CHECK(clean_name(std::string(kLongestName + 1, 'x')) == std::string(kLongestName - 3, 'x') + "...");
    for (std::size_t plain = 0; plain < 8; ++plain) {
        const std::string cut = clean_name(std::string(plain, 'x') + std::string(1000, '\n'));
        CHECK(cut.size() <= kLongestName);
        CHECK(cut.size() > kLongestName - 4);
        CHECK(cut.ends_with("\\x0a..."));
        CHECK(clean_name(cut) == cut);
    }
    CHECK(clean_text(std::string(std::size_t{1} << 20, '\x1b')).size() <= kLongestText);
}

}  // namespace
}  // namespace ask
