// SPDX-License-Identifier: Apache-2.0
//
// Hosts with IPv6 at a switch: programs know the number of whoever has a channel or a task there, and of
// nobody else.
#include <arpa/inet.h>

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/control/switch/controller.h"
#include "lib/control/switch/host_address.h"
#include "lib/net/host_book.h"
#include "tests/unit/control/memory_switch.h"
#include "tests/unit/control/small_task.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kFourHost = 0xc6120102;

std::uint32_t host(const std::string& text) {
    const auto number = parse_host(text);
    REQUIRE_MESSAGE(number.ok(), number.error().text());
    return *number;
}

Caller calling_from(const std::string& text) {
    Caller caller;
    caller.address = text;
    caller.ipv4 = parse_ipv4(text);
    caller.ipv6 = parse_ipv6(text);
    return caller;
}

struct HostsSwitch {
    MemorySwitch store;
    std::unique_ptr<Controller> controller;

    explicit HostsSwitch(bool reads_six = true) {
        store.reads_six = reads_six;
        start();
    }
    void start() {
        controller.reset();
        auto made = Controller::create(store, {.sram_bytes = 1U << 20U});
        REQUIRE_MESSAGE(made.ok(), made.error().text());
        controller = std::move(*made);
    }
    Result<> open(const std::string& from, std::uint64_t instance) const {
        const auto opened = controller->open_task(calling_from(from), small_task(instance, host(from)));
        return opened.ok() ? Result<>() : Result<>(opened.error());
    }
    [[nodiscard]] std::vector<std::string> known() const {
        std::vector<std::string> all;
        const auto keys = store.hosts()->keys();
        REQUIRE(keys.ok());
        for (const ask_ipv6& key : *keys) {
            const auto number = store.hosts()->find(key);
            REQUIRE((number.ok() && number->has_value()));
            all.push_back(format_host(ntohl(**number)));
            CHECK(all.back() == format_ipv6(address_of(key)));
        }
        return all;
    }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a host is known as long as a channel or a task has it") {
    HostsSwitch on;
    const std::string sender = "2001:2::2";
    const std::uint32_t number = host(sender);
    CHECK(on.known().empty());
    REQUIRE(on.controller->register_channel(calling_from(sender), {number, 49152}, 7, 0).ok());
    REQUIRE(on.controller->register_channel(calling_from(sender), {number, 49153}, 8, 0).ok());
    CHECK(on.known() == Names{sender});
    // Under another incarnation.
    REQUIRE(on.controller->register_channel(calling_from(sender), {number, 49152}, 9, 7).ok());
    REQUIRE(on.controller->unregister_channel(calling_from(sender), {number, 49153}, 8).ok());
    CHECK(on.known() == Names{sender});
    REQUIRE(on.open(sender, 1).ok());
    REQUIRE(on.controller->unregister_channel(calling_from(sender), {number, 49152}, 9).ok());
    CHECK(on.known() == Names{sender});
    REQUIRE(on.controller->close_task(calling_from(sender), 1).ok());
    CHECK(on.known().empty());
    REQUIRE(on.controller->register_channel(calling_from("198.18.1.2"), {kFourHost, 49152}, 7, 0).ok());
    CHECK(on.known().empty());
}

TEST_CASE("a successor knows the hosts of channels and tasks, and forgets others") {
    HostsSwitch on;
    const std::uint32_t sender = host("2001:2::2");
    REQUIRE(on.controller->register_channel(calling_from("2001:2::2"), {sender, 49152}, 7, 0).ok());
    REQUIRE(on.open("2001:2::3", 1).ok());
    const ask_ipv6 stray = program_address(*parse_ipv6("2001:2::9"));
    REQUIRE(on.store.hosts()->set(stray, htonl(number_of(address_of(stray)))).ok());
    on.start();
    CHECK(on.known().size() == 2);
    REQUIRE(on.controller->unregister_channel(calling_from("2001:2::2"), {sender, 49152}, 7).ok());
    CHECK(on.known() == Names{"2001:2::3"});
    REQUIRE(on.controller->close_task(calling_from("2001:2::3"), 1).ok());
    CHECK(on.known().empty());
}

TEST_CASE("of a channel that cannot be adopted no host stays known") {
    HostsSwitch on;
    const std::uint32_t sender = host("2001:2::2");
    REQUIRE(on.controller->register_channel(calling_from("2001:2::2"), {sender, 49152}, 7, 0).ok());
    // A damaged pin: the channel has a place that there is none of.
    const auto ids = on.store.channel_ids().keys();
    REQUIRE((ids.ok() && ids->size() == 1));
    const auto index = on.store.channel_ids().find(ids->front());
    REQUIRE((index.ok() && index->has_value()));
    const auto entry = on.store.channels().find(**index);
    REQUIRE((entry.ok() && entry->has_value()));
    constexpr std::uint32_t kNowhere = 1000;
    REQUIRE(on.store.channels().set(kNowhere, **entry).ok());
    REQUIRE(on.store.channel_ids().set(ids->front(), kNowhere).ok());
    on.start();
    CHECK(on.known().empty());
    REQUIRE(on.controller->register_channel(calling_from("2001:2::2"), {sender, 49152}, 8, 0).ok());
    REQUIRE(on.controller->unregister_channel(calling_from("2001:2::2"), {sender, 49152}, 8).ok());
    CHECK(on.known().empty());
}

TEST_CASE("what a switch cannot read is refused by name") {
    const HostsSwitch old(false);
    const std::uint32_t sender = host("2001:2::2");
    const auto channel = old.controller->register_channel(calling_from("2001:2::2"), {sender, 49152}, 7, 0);
    REQUIRE(!channel.ok());
    CHECK(channel.error().code() == Errc::kUnsupported);
    CHECK(channel.error().text().find("[2001:2::2]:49152: this switch does not read IPv6") !=
          std::string::npos);
    const auto task = old.open("2001:2::3", 1);
    REQUIRE(!task.ok());
    CHECK(task.error().text().find("task t1: this switch does not read IPv6") != std::string::npos);
    REQUIRE(old.open("198.18.1.2", 1).ok());
    // A number that nobody has explained.
    HostsSwitch on;
    Caller caller = calling_from("2001:2::2");
    caller.plain_text = true;
    CHECK(!on.controller->register_channel(caller, {0xf0000001, 49152}, 7, 0).ok());
    CHECK(on.known().empty());
}

TEST_CASE("a fan's members are of one family, and copies know their addresses") {
    ask_fan_member member{};
    set_address(member, host("2001:2::2"));
    CHECK(ntohl(member.address) == host("2001:2::2"));
    CHECK(address_of(member.six) == *parse_ipv6("2001:2::2"));
    set_address(member, kFourHost);
    CHECK(ntohl(member.address) == kFourHost);
    CHECK(address_of(member.six) == Ipv6Address{});
}
