// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/rate_flag.h"

#include <doctest/doctest.h>

namespace ask::cli {
namespace {

TEST_CASE("rates are bits a second, with a suffix or without") {
    CHECK(parse_rate("100M").value() == 100'000'000);
    CHECK(parse_rate("64k").value() == 64'000);
    CHECK(parse_rate("800K").value() == 800'000);
    CHECK(parse_rate("2.5G").value() == 2'500'000'000);
    CHECK(parse_rate("1000G").value() == 1'000'000'000'000);
    CHECK(parse_rate("123456").value() == 123'456);
}

TEST_CASE("what is no rate is said so") {
    for (const char* const text : {"", "M", "-1M", "1e9", "10 M", "10MB", "10Mbit", "0x10", "nan", ".",
                                   "1.2.3M", "123456.9", "1.2345k"}) {
        const auto rate = parse_rate(text);
        REQUIRE_FALSE(rate.ok());
        CHECK(rate.error().code() == Errc::kUsage);
        CHECK(rate.error().text().find("is no rate") != std::string::npos);
    }
    for (const char* const text : {"0", "63999", "63.9k", "1000.1G", "1001G"}) {
        REQUIRE_FALSE(parse_rate(text).ok());
        CHECK(parse_rate(text).error().text().find("from 64k to 1000G") != std::string::npos);
    }
}

TEST_CASE("rates as people read them") {
    CHECK(rate_text(0) == "0 bit/s");
    CHECK(rate_text(999) == "999 bit/s");
    CHECK(rate_text(100'000'000) == "100 Mbit/s");
    CHECK(rate_text(2'500'000'000) == "2.5 Gbit/s");
    CHECK(rate_text(1'005'000) == "1.005 Mbit/s");
    CHECK(rate_text(64'050) == "64.05 kbit/s");
    CHECK(rate_text(2'000'000'000'000) == "2000 Gbit/s");
}

}  // namespace
}  // namespace ask::cli
