// SPDX-License-Identifier: Apache-2.0
#include "lib/control/relay/relays.h"

#include <string>

#include <doctest/doctest.h>

#include "lib/base/runtime.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/types.h"
#include "relay/config.h"
#include "relay/sessions.h"

using namespace ask;

namespace {

v1::OpenRelayRequest good_order() {
    v1::OpenRelayRequest order;
    order.set_task_id("t");
    order.set_instance(7);
    order.set_receiver("198.18.5.2:4791");
    order.set_op(v1::OPERATOR_SUM);
    order.set_deadline_ms(5000);
    order.set_own_task_id("relayed-1");
    order.set_own_token("down");
    order.set_senders(2);
    *order.mutable_geometry() = geometry_to_proto({.short_slots = 4, .groups = 0, .m = 0, .rows = 1});
    order.set_parent("198.18.5.2:4791");
    order.set_parent_task_id("t");
    order.set_parent_token("up");
    order.set_name("s1");
    return order;
}

struct RelayBook {
    RelayConfig config;
    RelayBook() {
        config.agent = "/nonexistent/agent.sock";
        config.max_relays = 8;
        config.memory_mib = 256;
    }
    std::string refusal(const v1::OpenRelayRequest& order, Errc code, const char* from = "198.18.5.2") {
        Relays relays(config.limits(), relay_sessions(config.agent));
        const auto opened = relays.open(caller_from_peer("ipv4:" + std::string(from) + ":40000"), order);
        REQUIRE_FALSE(opened.ok());
        CHECK(opened.error().code() == code);
        CHECK(relays.status(caller_from_peer("ipv4:198.18.5.2:1")).reserved_bytes() == 0);
        return opened.error().text();
    }
};

}  // namespace

TEST_CASE("an order that makes no sense opens nothing, and says why") {
    RelayBook book;
    const auto with = [](auto change) {
        v1::OpenRelayRequest order = good_order();
        change(order);
        return order;
    };
    CHECK(book.refusal(with([](auto& order) { order.set_parent_token(""); }), Errc::kInput)
              .find("shows its parent a token") != std::string::npos);
    CHECK(book.refusal(with([](auto& order) { order.set_name(""); }), Errc::kInput).find("has a name") !=
          std::string::npos);
    CHECK(book.refusal(with([](auto& order) { order.set_name(std::string(65, 'x')); }), Errc::kInput)
              .find("at most 64 bytes, not 65") != std::string::npos);
    book.refusal(with([](auto& order) { order.set_own_token(""); }), Errc::kInput);
    book.refusal(with([](auto& order) { order.set_own_token(std::string(100'000, 'x')); }), Errc::kInput);
    book.refusal(with([](auto& order) { order.set_senders(0); }), Errc::kInput);
    book.refusal(with([](auto& order) { order.set_senders(UINT32_MAX); }), Errc::kInput);
    book.refusal(with([](auto& order) { order.set_instance(0); }), Errc::kInput);
    book.refusal(with([](auto& order) { order.set_deadline_ms(1); }), Errc::kInput);
    book.refusal(with([](auto& order) { order.mutable_geometry()->set_rows(1'000'000); }), Errc::kInput);
    CHECK_FALSE(book.refusal(with([](auto& order) { order.set_parent("nowhere"); }), Errc::kUsage).empty());
    CHECK_FALSE(book.refusal(with([](auto& order) { order.set_task_id("../x"); }), Errc::kUsage).empty());
}

TEST_CASE("a relay sends on to a task's receiver and to the parents that it was told of alone") {
    RelayBook book;
    book.config.memory_mib = 1;  // what is not refused for its parent is for want of room
    v1::OpenRelayRequest order = good_order();
    book.refusal(order, Errc::kLimit);
    order.set_parent("198.18.129.2:4791");
    CHECK(book.refusal(order, Errc::kDenied) ==
          "task t: its parent 198.18.129.2:4791 is neither its receiver nor one that this relay may send to: "
          "add its "
          "address to `parents` of ask-relayd");
    book.config.parents = {"198.18.130.2", "198.18.128.0/24"};
    book.refusal(order, Errc::kDenied);
    book.config.parents = {"198.18.130.2", "198.18.128.0/23"};
    book.refusal(order, Errc::kLimit);
    order.set_parent("198.18.130.2:4791");
    book.refusal(order, Errc::kLimit);
    order.set_parent("[2001:2:0:8::2]:4791");
    book.refusal(order, Errc::kDenied);
    book.config.parents = {"2001:2:0:8::/64"};
    book.refusal(order, Errc::kLimit);
    // By name it could be anybody tomorrow.
    order.set_parent("parent.example:4791");
    book.refusal(order, Errc::kInput);
}

TEST_CASE("a relay takes orders for tasks of who orders, and within his share") {
    RelayBook book;
    CHECK(book.refusal(good_order(), Errc::kDenied, "198.18.6.2").find("may not act for that host") !=
          std::string::npos);
    v1::OpenRelayRequest large = good_order();
    large.set_reserve_bytes(std::uint64_t{257} << 20U);
    CHECK(book.refusal(large, Errc::kLimit)
              .find("no room for 257 MiB more: 0 of 8 tasks and 0 MiB of 256 MiB") != std::string::npos);
    large.set_reserve_bytes(UINT64_MAX);
    book.refusal(large, Errc::kLimit);
    large.set_reserve_bytes(std::uint64_t{225} << 20U);
    CHECK(book.refusal(large, Errc::kLimit)
              .find("0 MiB of 224 MiB that it may reserve, and wants 225 MiB more") != std::string::npos);
}

TEST_CASE("without an agent the order fails by name, and gives back what it had reserved") {
    RelayBook book;
    Relays relays(book.config.limits(), relay_sessions(book.config.agent));
    v1::OpenRelayRequest order = good_order();
    order.set_wait_ms(10'000);
    const auto opened = relays.open(caller_from_peer("ipv4:198.18.5.2:40000"), order);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code() == Errc::kUnavailable);
    CHECK(opened.error().text().find("/nonexistent/agent.sock") != std::string::npos);
    while (relays.counts().failed == 0) {
        relays.tick();
        yield_thread();
    }
    const auto status = relays.status(caller_from_peer("ipv4:198.18.5.2:1"));
    CHECK(status.reserved_bytes() == 0);
    REQUIRE(status.relays_size() == 1);
    CHECK(status.relays(0).state() == "failed");
    // A late repeat of it opens nothing again.
    const auto late = relays.open(caller_from_peer("ipv4:198.18.5.2:40000"), order);
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code() == Errc::kAborted);
    // Another host sees nothing of it.
    CHECK(relays.status(caller_from_peer("ipv4:198.18.6.2:1")).relays_size() == 0);
}
