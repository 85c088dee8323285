// SPDX-License-Identifier: Apache-2.0
#include "lib/net/address_range.h"

#include <doctest/doctest.h>

#include "lib/net/host_book.h"

using namespace ask;

namespace {

bool is_in(const char* address, const char* range) {
    return parse_address_range(range).value().contains(parse_host(address).value());
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

TEST_CASE("ranges of IPv6 have the hosts whose addresses begin like them, and no others") {
    CHECK(is_in("2001:db8::1", "2001:db8::1"));
    CHECK_FALSE(is_in("2001:db8::2", "2001:db8::1"));
    CHECK(is_in("2001:db8:7fff:ffff::1", "2001:db8::/33"));
    CHECK_FALSE(is_in("2001:db8:8000::1", "2001:db8::/33"));
    CHECK(is_in("2001:db8:8000::1", "2001:db8:8000::/33"));
    CHECK(is_in("2001:db8::1", "::/0"));
    CHECK(is_in("2001:db8::ff", "2001:db8::f0/124"));
    CHECK_FALSE(is_in("2001:db8::1ff", "2001:db8::f0/124"));
    // A range is of one family; a number that no address is known of is in none.
    CHECK_FALSE(is_in("198.18.1.2", "::/0"));
    CHECK_FALSE(is_in("2001:db8::1", "0.0.0.0/0"));
    CHECK_FALSE(is_in("2001:db8::1", "128.0.0.0/1"));
    CHECK_FALSE(parse_address_range("::/0").value().contains(number_of(parse_ipv6("2001:db8:9::9").value())));
}

TEST_CASE("what is no range is refused, and so is one with bits that are no part of it") {
    for (const char* const text :
         {"", "h1", "198.18.0", "198.18.0.0/", "198.18.0.0/33", "198.18.0.0/-1", "198.18.0.0/15x", "/15",
          "::/", "::/129", "2001:db8::/32x", "[2001:db8::]/32", "fe80::1%eth0"}) {
        CAPTURE(text);
        CHECK_FALSE(check_address_range(text).ok());
    }
    const auto odd = parse_address_range("198.18.1.2/15");
    REQUIRE_FALSE(odd.ok());
    CHECK(odd.error().text() == "the range of 15 bits begins at 198.18.0.0");
    const auto odd6 = parse_address_range("2001:db8::1/33");
    REQUIRE_FALSE(odd6.ok());
    CHECK(odd6.error().text() == "the range of 33 bits begins at 2001:db8::");
}

TEST_CASE("a range that no host can be in is refused by name") {
    const auto said = [](const char* range) {
        const auto parsed = parse_address_range(range);
        return parsed.ok() ? std::string("taken") : parsed.error().text();
    };
    CHECK(said("::ffff:198.18.0.0/111") == "the range stands for IPv4 addresses: write 198.18.0.0/15");
    CHECK(said("::ffff:198.18.1.2") == "the range stands for IPv4 addresses: write 198.18.1.2/32");
    CHECK(said("240.0.0.0/4") == "240.0.0.0 is in 240.0.0.0/4, and no host's address");
    CHECK(said("250.1.2.3") == "250.1.2.3 is in 240.0.0.0/4, and no host's address");
    CHECK(said("fe80::/10") == "fe80:: is link-local or multicast, and no host's address");
    CHECK(said("ff02::/16") == "ff02:: is link-local or multicast, and no host's address");
    CHECK(said("ff00::/8") == "ff00:: is link-local or multicast, and no host's address");
    // Others are in these, too.
    for (const char* const wide : {"224.0.0.0/3", "::/64", "fe00::/7", "fe80::/9", "fd00::/8"}) {
        CAPTURE(wide);
        CHECK(said(wide) == "taken");
    }
}
