// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "agent/host_link.h"
#include "lib/net/host_book.h"
#include "lib/rpc/hosts6.h"

using namespace ask;

namespace {

// The control address that a name leads to, or why it does not.
std::string reached(const HostNames& names, const std::string& name, int family = AF_INET6) {
    const auto host = names.resolve(name, family, 0);
    return host.ok() ? control_address(host->address, host->port) : host.error().text();
}

std::string hex(std::size_t number) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%zx", number);
    return text.data();
}

}  // namespace

TEST_CASE("hosts are named by the table, with addresses of both families and ports") {
    const HostNames names({{"h1", "198.18.1.2"},
                           {"h2", "2001:2:0:2::2"},
                           {"h3", "[2001:2:0:3::2]:5791"},
                           {"h4", "198.18.4.2:5791"}});
    CHECK(reached(names, "h1") == "198.18.1.2:4791");
    CHECK(reached(names, "h2") == "[2001:2:0:2::2]:4791");
    CHECK(reached(names, "h2:6791") == "[2001:2:0:2::2]:6791");
    CHECK(reached(names, "h3") == "[2001:2:0:3::2]:5791");
    CHECK(reached(names, "h3:6791") == "[2001:2:0:3::2]:6791");
    CHECK(reached(names, "h4") == "198.18.4.2:5791");
}

TEST_CASE("hosts are named by addresses, which others cannot stand for") {
    const HostNames names({});
    CHECK(reached(names, "2001:2:0:2::2") == "[2001:2:0:2::2]:4791");
    CHECK(reached(names, "[2001:2:0:2::2]:5791") == "[2001:2:0:2::2]:5791");
    CHECK(reached(names, "::ffff:198.18.1.2") == "198.18.1.2:4791");
    CHECK(reached(names, "198.18.1.2:5791") == "198.18.1.2:5791");
    CHECK(reached(names, "240.1.2.3").find("240.1.2.3 is in 240.0.0.0/4") != std::string::npos);
    CHECK(reached(names, "fe80::1").find("fe80::1 is link-local") != std::string::npos);
    CHECK(reached(names, "[ff02::1]:4791").find("ff02::1 is a multicast address") != std::string::npos);
    CHECK(reached(names, "::1").find("::1 is every host's own") != std::string::npos);
    for (const char* const zoned : {"fe80::1%eth0", "[fe80::1%eth0]:4791"}) {
        CAPTURE(zoned);
        CHECK(reached(names, zoned).find("fe80::1 is link-local") != std::string::npos);
    }
    CHECK(reached(names, "2001:2::1%eth0")
              .find("has a zone, which only what is link-local has: leave it out") != std::string::npos);
    for (const char* const range : {"198.18.0.0/24", "198.18.1.2/24", "2001:2::/48"}) {
        CAPTURE(range);
        CHECK(reached(names, range).find("is a range of addresses: name one host") != std::string::npos);
    }
}

TEST_CASE("a name that the resolver knows leads to an address of the family that is wanted") {
    const HostNames names({});
    CHECK(reached(names, "localhost", AF_INET) == "127.0.0.1:4791");
    CHECK(reached(names, "no-such-host.invalid").find("not in the agent's [hosts]") != std::string::npos);
}

TEST_CASE("a user names so many hosts that nobody has heard of, and those of the table") {
    const HostNames names(std::map<std::string, std::string>{{"h1", "2001:2:ffff::1"}});
    const auto named = [&](std::size_t index, std::uint32_t user) {
        return names.resolve("2001:2:fffe::" + hex(index + 1), AF_INET6, user);
    };
    std::size_t made = 0;
    while (made < kMostIntroduced && named(made, 1000).ok()) {
        ++made;
    }
    CHECK(made == kMostIntroduced);
    const auto refused = named(made, 1000);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kLimit);
    CHECK(refused.error().text().find("user 1000 has made 8192 IPv6 hosts known") != std::string::npos);
    // What is known stays so; others, and the table, are not held back.
    CHECK(named(0, 1000).ok());
    CHECK(names.resolve("h1", AF_INET6, 1000).ok());
    CHECK(named(made, 1001).ok());
    CHECK(named(made + 1, 0).ok());
}
