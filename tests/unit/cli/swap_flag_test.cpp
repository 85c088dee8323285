// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/swap_flag.h"

#include <doctest/doctest.h>

namespace ask::cli {
namespace {

TEST_CASE("--swap: off, auto, and thresholds in any order") {
    CHECK(!parse_swap("off").value().has_value());
    CHECK(parse_swap("auto").value()->adaptive());
    const auto all = parse_swap("every=250,packets=7,tuples=1000").value();
    REQUIRE(all.has_value());
    CHECK(all->packets == 7);
    CHECK(all->tuples == 1000);
    CHECK(all->interval == 250 * kMillisecond);
    CHECK(!all->adaptive());
}

TEST_CASE("--swap: what is wrong is named") {
    for (const char* text : {"", "on", "packets", "packets=", "packets=x", "packets=1x", "packets=-1",
                             "tuples=0", "every=3600001", "packets=99999999999999999999",
                             "packets=1,packets=2", "packets=1,", "rows=3", "auto,packets=1"}) {
        CAPTURE(text);
        const auto parsed = parse_swap(text);
        REQUIRE(!parsed.ok());
        CHECK(parsed.error().code() == Errc::kUsage);
    }
    CHECK(parse_swap("tuples=0").error().text().find("from 1 to") != std::string::npos);
    CHECK(parse_swap("packets=1,packets=2").error().text() == "packets is given twice");
}

}  // namespace
}  // namespace ask::cli
