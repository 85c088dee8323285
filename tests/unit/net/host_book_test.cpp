// SPDX-License-Identifier: Apache-2.0
#include "lib/net/host_book.h"

#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace ask;

namespace {

Ipv6Address address_of(const char* text) {
    const auto address = parse_ipv6(text);
    REQUIRE_MESSAGE(address.has_value(), text);
    return *address;
}

// The i-th of 2001:db8::/96.
Ipv6Address numbered(std::uint32_t i) {
    Ipv6Address address = address_of("2001:db8::");
    for (std::size_t at = 0; at < sizeof(i); ++at) {
        address[15 - at] = static_cast<std::uint8_t>(i >> (8 * at));
    }
    return address;
}

}  // namespace

TEST_CASE("IPv6 addresses are read as RFC 4291 has them, and written as RFC 5952 does") {
    for (const auto& [text, written] :
         std::vector<std::pair<const char*, const char*>>{{"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
                                                          {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
                                                          {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
                                                          {"2001:2:0:1::0002", "2001:2:0:1::2"},
                                                          {"::", "::"},
                                                          {"::ffff:198.18.1.2", "::ffff:198.18.1.2"}}) {
        CAPTURE(text);
        CHECK(format_ipv6(address_of(text)) == written);
    }
    for (const char* bad : {"", "198.18.1.2", "2001:2", "2001:2:::1", "1:2:3:4:5:6:7:8:9", "fe80::1%eth0",
                            "[2001:2::2]", " ::1", "2001:2::g"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_ipv6(bad).has_value());
    }
    CHECK_FALSE(parse_ipv6(std::string_view("2001:2::2\0", 10)).has_value());
}

TEST_CASE("A number follows from the address by SipHash-2-4, as another implementation computes it") {
    CHECK(number_of(address_of("2001:2::2")) == 0xf5199f9c);
    CHECK(number_of(address_of("2001:2:0:1::2")) == 0xf3eeb991);
    CHECK(number_of(address_of("fd00::1")) == 0xf2222b6d);
}

TEST_CASE("Numbers of IPv6 hosts are in 240.0.0.0/4, where no IPv4 host is") {
    for (std::uint32_t i = 0; i < 1000; ++i) {
        const std::uint32_t number = number_of(numbered(i));
        REQUIRE(is_ipv6_number(number));
        REQUIRE_FALSE(is_host_address(number));
    }
    CHECK_FALSE(is_ipv6_number(0xffffffff));
    CHECK_FALSE(is_ipv6_number(0xefffffff));
    CHECK_FALSE(is_ipv6_number(0xc6120102));
}

TEST_CASE("The book knows a host by its number, and enters it once") {
    HostBook book;
    const Ipv6Address address = address_of("2001:2::2");
    CHECK_FALSE(book.find(number_of(address)).has_value());
    REQUIRE(book.enter(address).ok());
    CHECK(*book.enter(address) == number_of(address));
    CHECK(book.find(number_of(address)) == address);
    CHECK_FALSE(book.find(number_of(address) ^ 1U).has_value());
}

TEST_CASE("A second address under a number is refused, and the first stays") {
    const Ipv6Address first = address_of("2001:db8::2846");
    const Ipv6Address second = address_of("2001:db8::2d45");
    REQUIRE(number_of(first) == number_of(second));
    HostBook book;
    REQUIRE(book.enter(first).ok());
    const auto refused = book.enter(second);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kExists);
    CHECK(refused.error().text() ==
          "2001:db8::2846 and 2001:db8::2d45 have the same number 251.213.186.85: give one of the hosts "
          "another address");
    CHECK(book.find(number_of(first)) == first);
}

TEST_CASE("A full book takes no further host, and says so") {
    HostBook book(3);
    for (std::uint32_t i = 1; i <= 3; ++i) {
        REQUIRE(book.enter(numbered(i)).ok());
    }
    const auto refused = book.enter(numbered(4));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kLimit);
    CHECK(book.enter(numbered(1)).ok());
}

TEST_CASE("Addresses that cannot be one host's everywhere are not entered") {
    HostBook book;
    for (const char* text : {"::", "::1", "ff02::1", "fe80::1", "febf::1", "::ffff:240.1.2.3"}) {
        CAPTURE(text);
        const auto refused = book.enter(address_of(text));
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kInput);
    }
    CHECK(*book.enter(address_of("::ffff:198.18.1.2")) == 0xc6120102);
    CHECK(book.enter(address_of("fec0::1")).ok());
}

TEST_CASE("Hosts are read and written as addresses of their family") {
    CHECK(*parse_host("198.18.1.2") == 0xc6120102);
    CHECK(*parse_host("::ffff:198.18.1.2") == 0xc6120102);
    CHECK(format_host(0xc6120102) == "198.18.1.2");
    const auto number = parse_host("2001:2:0:7::2");
    REQUIRE(number.ok());
    CHECK(format_host(*number) == "2001:2:0:7::2");
    CHECK(is_host_number(*number));
    CHECK(is_host_number(0xc6120102));
    // Nobody has entered this one.
    CHECK_FALSE(is_host_number(0xf0010203));
    CHECK(format_host(0xf0010203) == "host number 240.1.2.3");
    for (const char* bad : {"", "h2", "240.1.2.3", "[2001:2::2]", "fe80::1", "::1", "2001:2::2%eth0"}) {
        CAPTURE(bad);
        const auto refused = parse_host(bad);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kInput);
    }
}

TEST_CASE("Control addresses of IPv6 hosts stand in brackets") {
    const auto number = host_of_control("[2001:2:0:8::2]:4791");
    REQUIRE(number.ok());
    CHECK(control_address(*number, 4791) == "[2001:2:0:8::2]:4791");
    CHECK(control_address(0xc6120102, 4791) == "198.18.1.2:4791");
    CHECK(*host_of_control("198.18.1.2:4791") == 0xc6120102);
    CHECK(*host_of_control("[::ffff:198.18.1.2]:4791") == 0xc6120102);
    for (const char* bad : {"2001:2::2:4791", "[2001:2::2]", "[198.18.1.2]:4791", "[]:4791", "[fe80::1]:4791",
                            "h2:4791", "198.18.1.2", "240.1.2.3:4791", "[2001:2::2]:0"}) {
        CAPTURE(bad);
        const auto refused = host_of_control(bad);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kInput);
    }
}

TEST_CASE("Several threads enter and look up at once") {
    HostBook book;
    constexpr std::uint32_t kHosts = 2000;
    std::atomic<std::uint32_t> wrong{0};
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (std::uint32_t i = 1; i <= kHosts; ++i) {
                const auto number = book.enter(numbered(i));
                wrong += !number.ok() || book.find(*number) != numbered(i) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}
