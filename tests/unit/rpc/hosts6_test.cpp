// SPDX-License-Identifier: Apache-2.0
//
// Addresses beside the numbers of hosts in messages, of friends and of others.
#include "lib/rpc/hosts6.h"

#include <string>

#include <doctest/doctest.h>

#include "lib/net/host_book.h"
#include "lib/rpc/call_origin.h"
#include "proto/agent.pb.h"
#include "proto/switch.pb.h"

using namespace ask;

namespace {

Ipv6Address address_of(const char* text) {
    return parse_ipv6(text).value();
}

std::string bytes_of(const Ipv6Address& address) {
    return {address.begin(), address.end()};
}

// As it comes from elsewhere: nothing in it is in the book.
v1::JoinRequest join_of(const Ipv6Address& address) {
    v1::JoinRequest join;
    join.mutable_channel()->set_host(number_of(address));
    join.add_hosts6(bytes_of(address));
    return join;
}

void refused(const google::protobuf::Message& message, Errc code, const char* text) {
    const auto taken = take_hosts(message);
    REQUIRE_FALSE(taken.ok());
    CHECK(taken.error().code() == code);
    CHECK_MESSAGE(taken.error().text().find(text) != std::string::npos, taken.error().text());
}

}  // namespace

TEST_CASE("a message is explained once for each IPv6 host in it, however deep it is") {
    v1::OpenTaskRequest open;
    open.set_receiver_address(enter_ipv6(address_of("2001:2:1::1")).value());
    open.mutable_values()->add_members(0xc6120102U);
    open.mutable_values()->add_members(enter_ipv6(address_of("2001:2:1::2")).value());
    open.mutable_values()->add_members(open.receiver_address());
    open.mutable_values()->add_racks()->add_members(enter_ipv6(address_of("2001:2:1::3")).value());
    explain_hosts(open);
    CHECK(open.hosts6_size() == 3);
    CHECK(take_hosts(open).ok());

    v1::OpenTaskRequest ipv4;
    ipv4.set_receiver_address(0xc6120102U);
    const auto before = ipv4.SerializeAsString();
    explain_hosts(ipv4);
    CHECK(ipv4.SerializeAsString() == before);
    CHECK(take_hosts(ipv4).ok());
    // Of a kind that has no room for it, and no numbers.
    v1::RenewRequest renew;
    explain_hosts(renew);
    CHECK(take_hosts(renew).ok());
}

TEST_CASE("what a message explains is known from then on") {
    const Ipv6Address address = address_of("2001:2:2::1");
    CHECK_FALSE(ipv6_of(number_of(address)));
    CHECK(take_hosts(join_of(address)).ok());
    CHECK(ipv6_of(number_of(address)) == address);
    CHECK(format_host(number_of(address)) == "2001:2:2::1");
    // Others may leave it out.
    v1::JoinRequest again = join_of(address);
    again.clear_hosts6();
    CHECK(take_hosts(again).ok());
}

TEST_CASE("a number that nothing explains is refused by name, as of a release that has none of it") {
    v1::JoinRequest join = join_of(address_of("2001:2:3::1"));
    join.clear_hosts6();
    refused(join, Errc::kUnknown, "the message has host number 2");
}

TEST_CASE("entries that are no hosts of the message are refused, and enter nothing") {
    const Ipv6Address good = address_of("2001:2:4::1");
    for (const unsigned bytes : {0U, 4U, 15U, 17U, 4096U}) {
        CAPTURE(bytes);
        v1::JoinRequest join = join_of(good);
        join.set_hosts6(0, std::string(bytes, '\x20'));
        refused(join, Errc::kInput, "has 16 bytes, not");
    }
    for (const char* const odd : {"::", "::1", "ff02::1", "fe80::1"}) {
        CAPTURE(odd);
        refused(join_of(address_of(odd)), Errc::kInput, odd);
    }
    // Stands for an IPv4 host, whose number is its address.
    refused(join_of(address_of("::ffff:198.18.1.2")), Errc::kUnknown, "host number");
    v1::JoinRequest stuffed = join_of(good);
    stuffed.mutable_channel()->set_host(0xc6120102U);
    refused(stuffed, Errc::kInput, "names 2001:2:4::1, and no host of that address is in it");
    CHECK_FALSE(ipv6_of(number_of(good)));
}

namespace {

constexpr const char* kOwn = "2001:2:6::1";

void says(v1::LookupRequest& request, std::uint32_t host) {
    request.set_host(host);
}
void says(v1::FollowStreamRequest& request, std::uint32_t host) {
    request.set_host(host);
}
void says(v1::OpenTaskRequest& request, std::uint32_t host) {
    request.set_receiver_address(host);
}
void says(auto& request, std::uint32_t host) {
    request.mutable_channel()->set_host(host);
}

template <typename Request>
Request about(const char* address) {
    Request request;
    says(request, number_of(address_of(address)));
    request.add_hosts6(bytes_of(address_of(address)));
    return request;
}

template <typename... Requests>
void for_each_kind(auto visit) {
    (visit.template operator()<Requests>(), ...);
}

}  // namespace

TEST_CASE("a request makes only its caller's own hosts known") {
    const Caller caller = caller_from_peer("ipv6:%5B2001:2:6::1%5D:40000");
    Caller shown = caller_from_peer("ipv4:198.18.1.2:40000");
    CertificateNames names;
    names.add_ip(kOwn);
    names.apply(shown);
    const auto visit = [&]<typename Request>() {
        const char* const other = "2001:2:6::2";
        for (const Caller& who : {caller, shown}) {
            const auto taken = take_hosts(about<Request>(other), who);
            REQUIRE_FALSE(taken.ok());
            CHECK(taken.error().code() == Errc::kDenied);
            CHECK(taken.error().text().find("names host 2001:2:6::2, which is not for " + describe(who)) !=
                  std::string::npos);
            CHECK_FALSE(ipv6_of(number_of(address_of(other))));
            CHECK(take_hosts(about<Request>(kOwn), who).ok());
        }
    };
    for_each_kind<v1::LookupRequest, v1::FollowStreamRequest, v1::JoinRequest, v1::JoinGroupRequest,
                  v1::RegisterChannelRequest, v1::UnregisterChannelRequest, v1::JoinFlowRequest,
                  v1::OpenTaskRequest>(visit);
    // What is known already may be spoken of; under another address it is refused.
    REQUIRE(enter_ipv6(address_of("2001:db8::2846")).ok());
    CHECK(take_hosts(about<v1::JoinFlowRequest>("2001:db8::2846"), caller).ok());
    CHECK(take_hosts(about<v1::JoinFlowRequest>("2001:db8::2d45"), caller).error().code() == Errc::kExists);
}

TEST_CASE("the members of one's own group are made known, so many a caller") {
    const Caller caller = caller_from_peer("ipv6:%5B2001:2:7::1%5D:40000");
    auto open = about<v1::OpenTaskRequest>("2001:2:7::1");
    open.mutable_values()->add_members(number_of(address_of("2001:2:7::2")));
    open.add_hosts6(bytes_of(address_of("2001:2:7::2")));
    CHECK(take_hosts(open, caller).error().code() == Errc::kDenied);
    // Not for who opens it for another.
    const Caller stranger = caller_from_peer("ipv6:%5B2001:2:7::9%5D:40000");
    CHECK(take_hosts(open, stranger, open.receiver_address()).error().code() == Errc::kDenied);
    CHECK_FALSE(ipv6_of(number_of(address_of("2001:2:7::2"))));
    CHECK(take_hosts(open, caller, open.receiver_address()).ok());
    CHECK(ipv6_of(number_of(address_of("2001:2:7::2"))));

    std::uint32_t made = 0;
    const auto next = [&](const Caller& who) {
        Ipv6Address address = address_of("2001:2:8::");
        address[14] = static_cast<std::uint8_t>(++made >> 8U);
        address[15] = static_cast<std::uint8_t>(made);
        return introduce({.number = number_of(address), .ipv6 = address}, who);
    };
    std::size_t counted = 1;
    Errc ended_by = Errc::kExists;
    // Among so many, some have a number that another has.
    while (ended_by == Errc::kExists) {
        const auto entered = next(caller);
        counted += entered.ok() ? 1U : 0U;
        ended_by = entered.ok() ? ended_by : entered.error().code();
    }
    CHECK(ended_by == Errc::kLimit);
    CHECK(counted == kMostIntroduced);
    // By its certificate, wherever it calls from.
    CertificateNames names;
    names.add_dns("h9");
    Caller shown = caller_from_peer("ipv6:%5B2001:2:9::1%5D:40000");
    names.apply(shown);
    Caller elsewhere = caller_from_peer("ipv6:%5B2001:2:9::2%5D:40000");
    names.apply(elsewhere);
    for (counted = 0; counted < kMostIntroduced;) {
        counted += next(counted % 2 == 0 ? shown : elsewhere).ok() ? 1U : 0U;
    }
    CHECK(next(shown).error().code() == Errc::kLimit);
    // One's own, those that are known, and those of IPv4 are not counted.
    CHECK(
        introduce({.number = number_of(address_of("2001:2:7::1")), .ipv6 = address_of("2001:2:7::1")}, caller)
            .ok());
    CHECK(
        introduce({.number = number_of(address_of("2001:2:7::2")), .ipv6 = address_of("2001:2:7::2")}, caller)
            .ok());
    CHECK(introduce({.number = 0xc6120102U}, caller).ok());
}

TEST_CASE("a second address of a number is refused, and names the first") {
    const Ipv6Address first = address_of("2001:db8::2846");
    const Ipv6Address second = address_of("2001:db8::2d45");
    REQUIRE(number_of(first) == number_of(second));
    CHECK(take_hosts(join_of(first)).ok());
    refused(join_of(second), Errc::kExists, "2001:db8::2846 and 2001:db8::2d45 have the same number");
    CHECK(ipv6_of(number_of(second)) == first);
}
