// SPDX-License-Identifier: Apache-2.0
#include "lib/text/decimal.h"

#include <random>
#include <string>

#include <doctest/doctest.h>

namespace ask {
namespace {

std::string error_of(std::string_view text, unsigned scale) {
    auto parsed = parse_scaled(text, scale);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code() == Errc::kInput);
    return parsed.error().text();
}

std::string printed(std::int64_t value, unsigned scale) {
    std::string out;
    append_scaled(out, value, scale);
    return out;
}

TEST_CASE("decimals become integers, exactly") {
    CHECK(*parse_scaled("12.34", 2) == 1234);
    CHECK(*parse_scaled("12.3", 2) == 1230);
    CHECK(*parse_scaled("12", 2) == 1200);
    CHECK(*parse_scaled("-0.01", 2) == -1);
    CHECK(*parse_scaled("-0", 3) == 0);
    CHECK(*parse_scaled(".5", 1) == 5);
    CHECK(*parse_scaled("-.5", 2) == -50);
    CHECK(*parse_scaled("0007.10", 2) == 710);
    CHECK(*parse_scaled("7", 0) == 7);
    // A double would not keep these.
    CHECK(*parse_scaled("90071992547409.93", 2) == 9007199254740993);
    CHECK(*parse_scaled("0.1", 18) == 100'000'000'000'000'000);
}

TEST_CASE("the whole of int64 has its decimals, and nothing beyond") {
    CHECK(*parse_scaled("92233720368547758.07", 2) == INT64_MAX);
    CHECK(*parse_scaled("-92233720368547758.08", 2) == INT64_MIN);
    CHECK(*parse_scaled("-9.223372036854775808", 18) == INT64_MIN);
    CHECK(error_of("92233720368547758.08", 2) ==
          "value '92233720368547758.08' is out of range: values go from -92233720368547758.08 to "
          "92233720368547758.07 at --scale 2");
    for (const char* const text : {"-92233720368547758.09", "92233720368547759", "99999999999999999999999"}) {
        CHECK(error_of(text, 2).find("is out of range") != std::string::npos);
    }
    CHECK(error_of("10", 18).find("is out of range") != std::string::npos);
}

TEST_CASE("what is no decimal number, or has too many decimals, is said") {
    CHECK(error_of("1.005", 2) == "value '1.005' has 3 decimals; --scale takes 2");
    CHECK(error_of("1.500", 2) == "value '1.500' has 3 decimals; --scale takes 2");
    CHECK(error_of("", 2) == "the value is empty");
    CHECK(error_of("1.5\r", 2) == "the value ends in a carriage return: --crlf takes it off");
    for (const char* const text :
         {"1.", ".", "-", "-.", "+1", "1e3", " 1", "1,5", "1.2.3", "--1", "1.-2", "0x1", "nan"}) {
        CHECK_MESSAGE(error_of(text, 2).find("is not a decimal number") != std::string::npos, text);
    }
}

std::string mean(std::int64_t sum, std::int64_t count, unsigned scale, unsigned decimals) {
    std::string out;
    append_mean(out, sum, count, scale, decimals);
    return out;
}

TEST_CASE("means are the nearest decimals, halves away from zero") {
    CHECK(mean(301, 3, 0, 2) == "100.33");
    CHECK(mean(302, 3, 0, 2) == "100.67");
    CHECK(mean(-302, 3, 0, 2) == "-100.67");
    CHECK(mean(1, 2, 0, 0) == "1");
    CHECK(mean(-1, 2, 0, 0) == "-1");
    CHECK(mean(1, 3, 0, 0) == "0");
    CHECK(mean(-1, 3, 0, 1) == "-0.3");
    CHECK(mean(-1, 30, 0, 1) == "0.0");
    CHECK(mean(1, 8, 0, 2) == "0.13");
    CHECK(mean(9995, 10, 0, 0) == "1000");
    CHECK(mean(999'999, 1000, 0, 2) == "1000.00");
    CHECK(mean(7, 7, 0, 6) == "1.000000");
    // Values with decimals of their own.
    CHECK(mean(1234, 2, 2, 3) == "6.170");
    CHECK(mean(5, 1, 3, 2) == "0.01");
    CHECK(mean(4, 1, 3, 2) == "0.00");
}

TEST_CASE("means of the largest sums and counts are exact") {
    CHECK(mean(INT64_MIN, 1, 0, 18) == "-9223372036854775808.000000000000000000");
    CHECK(mean(INT64_MIN, INT64_MAX, 0, 18) == "-1.000000000000000000");
    CHECK(mean(INT64_MIN, 3, 18, 18) == "-3.074457345618258603");
    CHECK(mean(INT64_MAX, INT64_MAX, 18, 18) == "0.000000000000000001");
    CHECK(mean(INT64_MAX, INT64_MAX - 1, 0, 18) == "1.000000000000000000");
    CHECK(mean(INT64_MAX, 2, 0, 1) == "4611686018427387903.5");
    CHECK(mean(INT64_MAX, 2, 0, 0) == "4611686018427387904");
}

TEST_CASE("what is printed is read back as it was") {
    CHECK(printed(1234, 2) == "12.34");
    CHECK(printed(-1, 2) == "-0.01");
    CHECK(printed(0, 2) == "0.00");
    CHECK(printed(5, 0) == "5");
    CHECK(printed(INT64_MIN, 18) == "-9.223372036854775808");
    CHECK(printed(INT64_MIN, 0) == "-9223372036854775808");
    std::mt19937_64 random(11);
    for (int i = 0; i < 20'000; ++i) {
        const auto value = static_cast<std::int64_t>(random()) >> (random() % 64);
        const auto scale = static_cast<unsigned>(random() % (kMaxScale + 1));
        const auto back = parse_scaled(printed(value, scale), scale);
        REQUIRE(back.ok());
        REQUIRE(*back == value);
    }
}

}  // namespace
}  // namespace ask
