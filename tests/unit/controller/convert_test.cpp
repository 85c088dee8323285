// SPDX-License-Identifier: Apache-2.0
//
// Requests that cannot be.
#include "controller/convert.h"

#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "lib/abi/limits.h"

using namespace ask;

namespace {

v1::AdmitRequest good_wish() {
    v1::AdmitRequest request;
    request.set_task("t");
    request.set_instance(1);
    request.set_receiver("198.18.0.1");
    auto* const sender = request.add_senders();
    sender->set_address("198.18.0.2");
    sender->set_sends(3);
    return request;
}

v1::RenewPlanRequest good_claim() {
    v1::RenewPlanRequest request;
    request.set_task("t");
    request.set_instance(1);
    request.set_plan(7);
    for (const char* const name : {"s1", "s2"}) {
        auto* const relay = request.mutable_placement()->add_relays();
        relay->set_name(name);
        relay->set_address("198.19.0.1:4793");
    }
    request.mutable_placement()->mutable_relays(1)->set_parent("s1");
    auto* const host = request.mutable_placement()->add_hosts();
    host->set_name("h");
    host->set_address("198.18.0.2");
    host->set_sends(3);
    host->set_entry("s2");
    return request;
}

void refused(const std::string& says, const std::function<void(v1::AdmitRequest&)>& spoil) {
    v1::AdmitRequest request = good_wish();
    spoil(request);
    const auto wish = wish_from_proto(request, Caller());
    REQUIRE_FALSE(wish.ok());
    CHECK(wish.error().code() == Errc::kInput);
    CHECK_MESSAGE(wish.error().text().find(says) != std::string::npos, wish.error().text());
}

void refused_claim(const std::string& says, const std::function<void(v1::RenewPlanRequest&)>& spoil) {
    v1::RenewPlanRequest request = good_claim();
    spoil(request);
    const auto claim = claim_from_proto(request, Caller());
    REQUIRE_FALSE(claim.ok());
    CHECK(claim.error().code() == Errc::kInput);
    CHECK_MESSAGE(claim.error().text().find(says) != std::string::npos, claim.error().text());
}

}  // namespace

TEST_CASE("a request to admit is taken as it is meant") {
    v1::AdmitRequest request = good_wish();
    request.set_k(4);
    request.add_excluded("s1");
    request.add_excluded("s1");
    request.set_objective("bytes");
    request.set_memory_mib(5);
    const auto wish = wish_from_proto(request, Caller()).value();
    CHECK(wish.task == "t");
    CHECK(wish.senders.size() == 1);
    CHECK(wish.senders[0].address == 0xc6120002U);
    CHECK(wish.senders[0].sends == 3);
    CHECK(wish.objective == placement::Objective::kBytes);
    CHECK(wish.k == 4);
    CHECK(wish.excluded.size() == 1);
    CHECK(wish.memory_mib == 5);
    CHECK(wish_from_proto(good_wish(), Caller()).value().objective == placement::Objective::kUtilisation);
}

TEST_CASE("requests to admit that cannot be are refused") {
    refused("task id", [](auto& request) { request.set_task("a b"); });
    refused("task id", [](auto& request) { request.set_task(std::string(64, 'a')); });
    refused("instance 0", [](auto& request) { request.set_instance(0); });
    refused("objective 'speed'", [](auto& request) { request.set_objective("speed"); });
    refused("without senders", [](auto& request) { request.clear_senders(); });
    for (const char* const address : {"", "198.18.0", "h1", "198.18.0.2:1", "[2001:db8::1]", "2001:db8"}) {
        refused("a sender's address must be an IPv4 or IPv6 address, not",
                [address](auto& request) { request.mutable_senders(0)->set_address(address); });
    }
    for (const char* const address : {"127.0.0.1", "224.0.0.1", "0.0.0.0"}) {
        refused("must be the address of a host",
                [address](auto& request) { request.mutable_senders(0)->set_address(address); });
    }
    refused("a sender's address 240.0.0.1 is in 240.0.0.0/4",
            [](auto& request) { request.mutable_senders(0)->set_address("240.0.0.1"); });
    refused("a sender's address fe80::1 is link-local",
            [](auto& request) { request.mutable_senders(0)->set_address("fe80::1"); });
    refused("sends nothing", [](auto& request) { request.mutable_senders(0)->set_sends(0); });
    refused("given twice", [](auto& request) { *request.add_senders() = request.senders(0); });
    refused("at most 4096 sends",
            [](auto& request) { request.mutable_senders(0)->set_sends(ASK_MAX_SENDERS + 1); });
    // Sums that would not fit 32 bits.
    refused("at most 4096 sends", [](auto& request) {
        request.mutable_senders(0)->set_sends(4096);
        auto* const more = request.add_senders();
        more->set_address("198.18.0.3");
        more->set_sends(4294967295U);
    });
    refused("1 to 255 bytes", [](auto& request) { request.add_excluded(""); });
    refused("1 to 255 bytes", [](auto& request) { request.add_excluded(std::string(256, 'x')); });
    refused("may be excluded", [](auto& request) {
        for (int number = 0; number <= 4096; ++number) {
            request.add_excluded("s" + std::to_string(number));
        }
    });
    CHECK(receiver_from("198.18.0.1").value().number == 0xc6120001U);
    CHECK(receiver_from("198.18.0.1:4791").error().code() == Errc::kInput);
    CHECK(receiver_from("\x1b[2J").error().text().find('\x1b') == std::string::npos);
}

TEST_CASE("claims that cannot be are refused") {
    const auto claim = claim_from_proto(good_claim(), Caller()).value();
    CHECK(claim.plan == 7);
    CHECK(claim.wish.k == 2);
    CHECK(claim.wish.senders.size() == 1);
    // No switch at all is a plan, too.
    v1::RenewPlanRequest none = good_claim();
    none.clear_placement();
    CHECK(claim_from_proto(none, Caller()).ok());
    refused_claim("plan 0", [](auto& request) { request.set_plan(0); });
    refused_claim("before its parent",
                  [](auto& request) { request.mutable_placement()->mutable_relays(0)->set_parent("s2"); });
    refused_claim("before its parent",
                  [](auto& request) { request.mutable_placement()->mutable_relays(0)->set_parent("s1"); });
    refused_claim("given twice", [](auto& request) {
        *request.mutable_placement()->add_relays() = request.placement().relays(0);
    });
    refused_claim("IPv4:PORT",
                  [](auto& request) { request.mutable_placement()->mutable_relays(0)->set_address("s1:1"); });
    refused_claim("1 to 255 bytes",
                  [](auto& request) { request.mutable_placement()->mutable_relays(0)->clear_name(); });
    refused_claim("no relay of the placement",
                  [](auto& request) { request.mutable_placement()->mutable_hosts(0)->set_entry("s3"); });
    refused_claim("given twice", [](auto& request) {
        *request.mutable_placement()->add_hosts() = request.placement().hosts(0);
    });
    refused_claim("at most 255 bytes", [](auto& request) {
        request.mutable_placement()->mutable_hosts(0)->set_name(std::string(256, 'x'));
    });
    refused_claim("objective", [](auto& request) { request.mutable_placement()->set_objective("x"); });
}
