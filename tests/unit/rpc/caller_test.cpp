// SPDX-License-Identifier: Apache-2.0
//
// Who calls, by what the kernel and a certificate say.
#include "lib/rpc/caller.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"
#include "lib/net/host_book.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/owner.h"

using namespace ask;

TEST_CASE("a caller is where its connection comes from") {
    const Caller host = caller_from_peer("ipv4:198.18.1.2:40000");
    CHECK(host.address == "198.18.1.2");
    CHECK(host.ipv4 == 0xc6120102U);
    CHECK_FALSE(host.is_local());
    CHECK_FALSE(host.verified);
    CHECK_FALSE(host.role_operator);
    CHECK(describe(host) == "198.18.1.2");

    CHECK(caller_from_peer("ipv6:%5B2001:db8::1%5D:40000").address == "2001:db8::1");
    CHECK(caller_from_peer("ipv6:[2001:db8::1]:40000").address == "2001:db8::1");
    CHECK_FALSE(caller_from_peer("ipv6:[2001:db8::1]:40000").ipv4);
    CHECK(caller_from_peer("ipv6:%5B::ffff:198.18.1.2%5D:40000").ipv4 == 0xc6120102U);
    for (const char* const odd : {"", "ipv4:", "unix:", "unix:/run/x", "fd:", "fd:x", "fd:99999"}) {
        CAPTURE(odd);
        CHECK_FALSE(may_operate(caller_from_peer(odd)));
        CHECK_FALSE(caller_from_peer(odd).is_local());
    }
}

TEST_CASE("a local caller is the user who connected, and only on a Unix socket") {
    std::array<int, 2> pair{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    const UniqueFd ours(pair[0]);
    const UniqueFd theirs(pair[1]);
    const Caller caller = caller_from_peer("fd:" + std::to_string(ours.get()));
    CHECK(caller.is_local());
    CHECK(caller.uid == ::getuid());
    CHECK(caller.role_operator);
    CHECK(describe(caller) == "user " + std::to_string(::getuid()));

    const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    CHECK_FALSE(caller_from_peer("fd:" + std::to_string(file.get())).is_local());
    const UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK_FALSE(caller_from_peer("fd:" + std::to_string(tcp.get())).is_local());
}

TEST_CASE("a certificate says names, addresses, tenant and roles") {
    CertificateNames names;
    names.add_dns("h1");
    names.add_dns("h1.rack");
    names.add_ip("198.18.1.2");
    names.add_ip("2001:db8::1");
    names.add_uri("ask://tenant/search");
    names.add_uri("ask://role/switch");
    names.add_uri("https://example.org/");
    Caller caller = caller_from_peer("ipv4:198.18.1.2:40000");
    names.apply(caller);
    CHECK(caller.verified);
    CHECK(caller.tenant == "search");
    CHECK(caller.role_switch);
    CHECK_FALSE(caller.role_operator);
    CHECK_FALSE(may_operate(caller));
    CHECK(describe(caller) == "h1 (198.18.1.2)");
    CHECK(acts_for(caller, 0xc6120102U));
    CHECK_FALSE(acts_for(caller, 0xc6120202U));
    CHECK(acts_for(caller, parse_host("2001:db8::1").value()));
    CHECK_FALSE(acts_for(caller, parse_host("2001:db8::2").value()));
    // The certificate says what it may act for, wherever it calls from.
    caller.ipv4 = 0xc6120202U;
    CHECK_FALSE(acts_for(caller, 0xc6120202U));
}

TEST_CASE("an IPv6 host is its whole address, and not the number that another could have") {
    const Ipv6Address first = parse_ipv6("2001:db8:1::2846").value();
    const std::uint32_t number = number_of(first);
    const Caller caller = caller_from_peer("ipv6:%5B2001:db8:1::2846%5D:40000");
    CHECK(caller.ipv6 == first);
    CHECK_FALSE(caller.ipv4);
    // To call enters nothing.
    CHECK_FALSE(acts_for(caller, number));
    CHECK_FALSE(ipv6_of(number));
    CHECK(host_of(caller) == number);
    CHECK(acts_for(caller, number));
    CHECK(owner_for(caller, "[2001:db8:1:0::2846]:4791").value().host == number);
    CHECK(owner_for(caller, "").value().host == number);
    CHECK(owner_for(caller, "2001:db8:1::2846:4791").error().code() == Errc::kInput);
    CHECK(owner_for(caller, "[fe80::1]:4791").error().text().find("link-local") != std::string::npos);
    CHECK(owner_for(caller, "[2001:db8:1::1]:4791").error().code() == Errc::kDenied);
    CHECK_FALSE(ipv6_of(number_of(parse_ipv6("2001:db8:1::1").value())));
    CHECK(holder_of({.tenant = {}, .host = number}) == "host 2001:db8:1::2846");

    // Nor is it the IPv4 address that looks like it.
    const Caller odd = caller_from_peer("ipv4:" + format_ipv4(number) + ":40000");
    CHECK_FALSE(acts_for(odd, number));
    CHECK_FALSE(host_of(odd));
    const Caller early = caller_from_peer("ipv4:240.1.2.3:40000");
    CHECK_FALSE(acts_for(early, early.ipv4.value()));
    Caller shown = caller_from_peer("ipv6:%5B2001:db8:1::1%5D:40000");
    CertificateNames names;
    names.add_ip(format_ipv4(number));
    names.apply(shown);
    CHECK_FALSE(acts_for(shown, number));
    // Of where it calls from, which its certificate does not name, nothing is kept.
    CHECK_FALSE(host_of(shown));
    CHECK(owner_for(shown, "").error().code() == Errc::kDenied);
    CHECK_FALSE(ipv6_of(number_of(shown.ipv6.value())));
}

TEST_CASE("of two addresses with one number the second is nobody") {
    const Caller first = caller_from_peer("ipv6:%5B2001:db8::2846%5D:40000");
    const Caller second = caller_from_peer("ipv6:%5B2001:db8::2d45%5D:40000");
    const auto number = host_of(first);
    REQUIRE(number);
    CHECK_FALSE(host_of(second));
    CHECK(acts_for(first, *number));
    CHECK_FALSE(acts_for(second, *number));
    Caller shown = second;
    CertificateNames names;
    names.add_ip("2001:db8::2d45");
    names.apply(shown);
    CHECK_FALSE(acts_for(shown, *number));
}

TEST_CASE("link-local addresses and loopback are callers, and no hosts") {
    for (const char* const peer : {"ipv6:%5Bfe80::1%25eth0%5D:1", "ipv6:%5B::1%5D:1"}) {
        CAPTURE(peer);
        CHECK_FALSE(host_of(caller_from_peer(peer)));
        CHECK(owner_for(caller_from_peer(peer), "").error().code() == Errc::kDenied);
    }
}

TEST_CASE("one's own tenant is read as that of others is") {
    CHECK(tenant_of({"https://example.org/", "ask://tenant/search"}) == "search");
    CHECK(tenant_of({"ask://role/operator"}).empty());
    CHECK(tenant_of({"ask://tenant/search", "ask://tenant/ads"}).empty());
}

TEST_CASE("a certificate with a second tenant, or one that is no name, proves neither tenant nor role") {
    for (const char* const tenant :
         {"ask://tenant/ads", "ask://tenant/", "ask://tenant/a.b", "ask://tenant/a/b"}) {
        CAPTURE(tenant);
        CertificateNames names;
        names.add_uri("ask://tenant/search");
        names.add_uri("ask://role/operator");
        names.add_uri(tenant);
        Caller caller;
        names.apply(caller);
        CHECK(caller.verified);
        CHECK(caller.tenant.empty());
        CHECK_FALSE(caller.role_operator);
    }
}
