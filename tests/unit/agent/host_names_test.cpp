// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <string>

#include <doctest/doctest.h>

#include "agent/host_link.h"
#include "lib/net/host_book.h"

using namespace ask;

namespace {

// The control address that a name leads to, or why it does not.
std::string reached(const HostNames& names, const std::string& name, int family = AF_INET6) {
    const auto host = names.resolve(name, family);
    return host.ok() ? control_address(host->address, host->port) : host.error().text();
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
}

TEST_CASE("a name that the resolver knows leads to an address of the family that is wanted") {
    const HostNames names({});
    CHECK(reached(names, "localhost", AF_INET) == "127.0.0.1:4791");
    CHECK(reached(names, "no-such-host.invalid").find("not in the agent's [hosts]") != std::string::npos);
}
