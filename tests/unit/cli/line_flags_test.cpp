// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/line_flags.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tools/cli/cli.h"

namespace ask::cli {
namespace {

// What the command line gives.
Result<InputRules> rules_of(std::vector<std::string> arguments) {
    CLI::App app("test", "test");
    LineFlags flags;
    std::vector<std::string> files;
    add_line_flags(app, flags);
    app.add_option("FILE", files);
    std::string name = "test";
    std::vector<char*> argv{name.data()};
    for (std::string& argument : arguments) {
        argv.push_back(argument.data());
    }
    try {
        app.parse(static_cast<int>(argv.size()), argv.data());
    } catch (const CLI::ParseError& error) {
        return Error(Errc::kUsage, error.what());
    }
    return input_rules(flags);
}

std::string error_of(const std::vector<std::string>& arguments) {
    auto rules = rules_of(arguments);
    REQUIRE_FALSE(rules.ok());
    CHECK(rules.error().code() == Errc::kUsage);
    return rules.error().text();
}

TEST_CASE("without flags, lines are of the ordinary forms") {
    const auto values = rules_of({});
    REQUIRE(values.ok());
    CHECK(values->lines.plain());
    CHECK(values->lines.form == LineForm::kKeyValue);
    CHECK_FALSE(values->content.refuse_zeros);
    const auto keys = rules_of({"--count"});
    CHECK(keys->lines.plain());
    CHECK(keys->lines.form == LineForm::kKey);
    CHECK(keys->content.refuse_zeros);
    CHECK_FALSE(rules_of({"--count", "--no-decompress"})->content.refuse_zeros);
    CHECK(rules_of({"--no-decompress"})->content.as_is);
    CHECK_FALSE(rules_of({"--raw"})->lines.escapes);
    CHECK(rules_of({"--crlf"})->lines.crlf);
    CHECK(*rules_of({"--scale", "18"})->lines.scale == 18);
}

TEST_CASE("columns are named by delimiter, key and value") {
    const auto comma = rules_of({"--delimiter", ",", "file"});
    REQUIRE(comma.ok());
    CHECK(comma->lines.columns->delimiter == ',');
    CHECK(comma->lines.columns->only);
    CHECK(comma->lines.columns->key == std::vector<std::uint32_t>{1});
    CHECK(comma->lines.columns->value == 2);
    const auto several = rules_of({"--key", "3,1", "--value", "7", "file"});
    REQUIRE(several.ok());
    CHECK(several->lines.columns->delimiter == '\t');
    CHECK_FALSE(several->lines.columns->only);
    CHECK(several->lines.columns->key == std::vector<std::uint32_t>{3, 1});
    CHECK(several->lines.columns->value == 7);
    const auto counted = rules_of({"--count", "--key", "2", "--delimiter", "whitespace"});
    REQUIRE(counted.ok());
    CHECK(counted->lines.columns->whitespace);
    CHECK(counted->lines.columns->value == 0);
    CHECK(rules_of({"--delimiter", "\\t"})->lines.columns->delimiter == '\t');
    CHECK(rules_of({"--delimiter", "\\x1f"})->lines.columns->delimiter == '\x1f');
    CHECK(rules_of({"--delimiter", "\\"})->lines.columns->delimiter == '\\');
}

TEST_CASE("flags that lack another, or contradict one, say which") {
    CHECK(error_of({"--key", "1"}) == "--key needs --value N, the column that is the value, or --count");
    CHECK(error_of({"--value", "2"}) == "--value needs --key N: the column that is the key");
    CHECK(error_of({"--count", "--key", "1", "--value", "2"}).starts_with("--count takes every line as 1"));
    CHECK(error_of({"--count", "--scale", "2"}).starts_with("--count takes every line as 1"));
    CHECK(error_of({"--count", "--delimiter", ","}).starts_with("--count with --delimiter needs --key"));
    for (const char* const key : {"0", "a", "1,", ",1", "1,,2", "1 2", "-1", "65536", "1x"}) {
        CHECK_MESSAGE(error_of({"--count", "--key", key}).find("is not N or N,M") != std::string::npos, key);
    }
    CHECK(error_of({"--count", "--key", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"}) ==
          "--key takes 16 columns at most");
    CHECK(error_of({"--delimiter", ",,"}).starts_with("--delimiter ',,' is not one byte"));
    CHECK(error_of({"--delimiter", "\\q"}).starts_with("--delimiter '\\\\q' is not one byte"));
    CHECK(error_of({"--delimiter", "\\n"}).find("ends lines") != std::string::npos);
    CHECK(error_of({"--delimiter", ""}).find("--delimiter") != std::string::npos);
    CHECK(error_of({"--key", "1", "--value", "0"}).find("--value") != std::string::npos);
    CHECK(error_of({"--scale", "19"}).find("--scale") != std::string::npos);
    CHECK(error_of({"--skip-bad", "-1"}).find("--skip-bad") != std::string::npos);
}

}  // namespace
}  // namespace ask::cli
