// SPDX-License-Identifier: Apache-2.0
#include "lib/net/address_range.h"

#include <doctest/doctest.h>

#include "lib/net/address.h"

using namespace ask;

namespace {

bool is_in(const char* address, const char* range) {
    return parse_address_range(range).value().contains(parse_ipv4(address).value());
}

}  // namespace

TEST_CASE("an address is a range of itself, and a range has what begins like it") {
    CHECK(is_in("198.18.1.2", "198.18.1.2"));
    CHECK_FALSE(is_in("198.18.1.3", "198.18.1.2"));
    CHECK(is_in("198.19.255.255", "198.18.0.0/15"));
    CHECK_FALSE(is_in("198.20.0.0", "198.18.0.0/15"));
    CHECK(is_in("198.18.1.2", "198.18.1.2/32"));
    CHECK(is_in("1.2.3.4", "0.0.0.0/0"));
    CHECK(is_in("255.255.255.255", "128.0.0.0/1"));
    CHECK_FALSE(is_in("127.255.255.255", "128.0.0.0/1"));
}

TEST_CASE("what is no range is refused, and so is one with bits that are no part of it") {
    for (const char* const text : {"", "h1", "198.18.0", "198.18.0.0/", "198.18.0.0/33", "198.18.0.0/-1",
                                   "198.18.0.0/15x", "/15", "::/0"}) {
        CAPTURE(text);
        CHECK_FALSE(check_address_range(text).ok());
    }
    const auto odd = parse_address_range("198.18.1.2/15");
    REQUIRE_FALSE(odd.ok());
    CHECK(odd.error().text() == "the range of 15 bits begins at 198.18.0.0");
}
