// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "lib/tuples/types.h"

namespace ask {
namespace {

std::string error_of(const char* text, unsigned payload_limit = ASK_MAX_PAYLOAD) {
    const auto parsed = parse_geometry(text, payload_limit);
    return parsed.ok() ? "" : parsed.error().text();
}

TEST_CASE("a geometry's text form reads back") {
    for (const char* text : {"16+8x2*4", "32*4", "0+16x4*2", "0+32x1*4", "1*8", "4+3x3*1"}) {
        const auto parsed = parse_geometry(text, ASK_MAX_PAYLOAD);
        REQUIRE(parsed.ok());
        CHECK(to_string(*parsed) == text);
    }
    CHECK(parse_geometry("16+8x2*4", ASK_MAX_PAYLOAD).value() == Geometry{});
    CHECK(to_string(parse_geometry("16+0x2*4", ASK_MAX_PAYLOAD).value()) == "16*4");
}

TEST_CASE("rows that are not given fill 128 tuples and the payload") {
    // 24 slots: 5 rows are 120 tuples and 48 + 5 x 260 bytes.
    CHECK(parse_geometry("16+8x2", ASK_MAX_PAYLOAD)->rows == 5);
    CHECK(parse_geometry("16+8x2", 1472)->rows == 5);
    CHECK(parse_geometry("16+8x2", 1347)->rows == 4);
    CHECK(parse_geometry("16+8x2", 308)->rows == 1);
    CHECK(parse_geometry("1", 1472)->rows == 8);
    CHECK(parse_geometry("16", 1472)->rows == 8);
    CHECK(parse_geometry("32", ASK_MAX_PAYLOAD)->rows == 4);
}

TEST_CASE("a payload too short for the rows is an error that says what to do") {
    CHECK(error_of("16+8x2", 307).find("308") != std::string::npos);
    CHECK(error_of("16+8x2*4", 1087).find("raise the MTU") != std::string::npos);
    CHECK(error_of("16+8x2*4", 1088).empty());
}

TEST_CASE("text that is no geometry is refused") {
    for (const char* text : {"", "x", "16+", "16+8", "16+8x", "16+8x2*", "16+8x2*0", "16+8x2*4 ", " 16", "-1",
                             "256", "1+1x256"}) {
        CAPTURE(text);
        CHECK(error_of(text).find("expected SHORT+GROUPSxM") != std::string::npos);
    }
}

TEST_CASE("every limit is checked and named") {
    const auto refused = [](Geometry geometry, const char* why) {
        const auto result = validate(geometry);
        CAPTURE(to_string(geometry));
        REQUIRE_FALSE(result.ok());
        CHECK(result.error().text().find(why) != std::string::npos);
    };
    refused({.short_slots = 0, .groups = 0, .m = 0, .rows = 1}, "at least one slot");
    refused({.short_slots = 33, .groups = 0, .m = 0, .rows = 1}, "slots a row: 33, the limit is 32");
    refused({.short_slots = 16, .groups = 17, .m = 2, .rows = 1}, "slots a row: 33");
    refused({.short_slots = 16, .groups = 0, .m = 2, .rows = 1}, "m must be 0");
    refused({.short_slots = 16, .groups = 8, .m = 1, .rows = 1}, "at least 2");
    refused({.short_slots = 0, .groups = 8, .m = 0, .rows = 1}, "at least 1");
    refused({.short_slots = 0, .groups = 8, .m = 5, .rows = 1}, "m: 5, the limit is 4");
    refused({.short_slots = 0, .groups = 32, .m = 3, .rows = 1}, "aggregator arrays: 96, the limit is 64");
    refused({.short_slots = 16, .groups = 8, .m = 2, .rows = 0}, "rows must be");
    refused({.short_slots = 1, .groups = 0, .m = 0, .rows = 9}, "rows must be");
    refused({.short_slots = 16, .groups = 8, .m = 2, .rows = 6}, "slots x rows: 144, the limit is 128");
    refused({.short_slots = 0, .groups = 16, .m = 4, .rows = 8}, "UDP payload: 4176");
    CHECK(validate({.short_slots = 0, .groups = 16, .m = 4, .rows = 6}).ok());
}

}  // namespace
}  // namespace ask
