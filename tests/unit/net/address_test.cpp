// SPDX-License-Identifier: Apache-2.0
#include "lib/net/address.h"

#include <doctest/doctest.h>

using namespace ask;

TEST_CASE("IPv4 addresses are read and written in dotted form") {
    CHECK(format_ipv4(0xC6120102) == "198.18.1.2");
    CHECK(format_ipv4(0) == "0.0.0.0");
    CHECK(format_ipv4(0xFFFFFFFF) == "255.255.255.255");
    CHECK(parse_ipv4("198.18.1.2") == 0xC6120102);
    for (const char* bad : {"", "198.18.1", "198.18.1.256", "198.18.1.2.3", " 198.18.1.2", "h2", "0x7f.1"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_ipv4(bad).has_value());
    }
    CHECK_FALSE(parse_ipv4(std::string_view("198.18.1.2\0.example", 19)).has_value());
}

TEST_CASE("Ethernet addresses are written with colons") {
    CHECK(format_mac({0x02, 0x00, 0xab, 0xcd, 0xef, 0x01}) == "02:00:ab:cd:ef:01");
}
