// SPDX-License-Identifier: Apache-2.0
//
// What a receiver relies on at a switch before it commits: that the region is the one that it opened, and
// that its flows' counts are there, whoever calls, and whatever became of channels and daemon.
#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include <doctest/doctest.h>

#include "lib/control/switch/controller.h"
#include "lib/control/switch/fetch.h"
#include "tests/unit/control/memory_switch.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kReceiver = 0xc6120202;
constexpr std::uint64_t kInstance = 7;
constexpr ChannelId kChannel{0xc6120102, 49152};
constexpr CheckSecret kSecret{1, 2};

Caller caller_on(std::uint32_t address) {
    Caller caller;
    caller.ipv4 = address;
    caller.plain_text = true;
    return caller;
}

// Its calls come from the task's own hosts, so that nobody is refused for what he is.
struct OneTask {
    MemorySwitch store;
    std::unique_ptr<Controller> controller;

    OneTask() { start(); }
    void start() {
        controller.reset();
        auto made = Controller::create(store, {.sram_bytes = 1U << 20U, .quota = {.flows = 8}});
        REQUIRE_MESSAGE(made.ok(), made.error().text());
        controller = std::move(*made);
    }
    [[nodiscard]] RegionId open(std::uint64_t instance = kInstance) const {
        TaskRequest request;
        request.id = "task" + std::to_string(instance);
        request.instance = instance;
        request.geometry = {.short_slots = 4, .groups = 0, .m = 0, .rows = 1};
        request.aggregators = 16;
        request.copies = 2;
        request.receiver = "198.18.2.2:4791";
        request.receiver_address = kReceiver;
        const auto grant = controller->open_task(caller_on(kReceiver), request);
        REQUIRE_MESSAGE(grant.ok(), grant.error().text());
        return {instance, grant->nonce};
    }
    void close() const { REQUIRE(controller->close_task(caller_on(kReceiver), kInstance).ok()); }
    void channel(ChannelId id, std::uint32_t incarnation, std::uint32_t replaces = 0) const {
        REQUIRE(controller->register_channel(caller_on(id.host), id, incarnation, replaces).ok());
    }
    [[nodiscard]] Result<std::uint64_t> join(ChannelId id, std::uint32_t incarnation,
                                             const CheckSecret& secret = kSecret) const {
        return controller->join_flow(caller_on(kReceiver), kInstance, id, incarnation, secret);
    }
    [[nodiscard]] std::vector<FlowReport> flows() const {
        const auto reports = controller->flow_reports(kInstance);
        REQUIRE(reports.ok());
        return *reports;
    }
};

template <typename T>
void refused(const Result<T>& result, Errc code, const std::string& text) {
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code() == code);
    CHECK_MESSAGE(result.error().text().find(text) != std::string::npos, result.error().text());
}

}  // namespace

TEST_CASE("a channel may come in by all ports of its route, but not where the dedupe wants one CPU") {
    constexpr ChannelId kBeyond{0xc6126502, 49152};
    OneTask on;
    CHECK(on.controller->register_channel(caller_on(kBeyond.host), kBeyond, 1, 0).ok());
    on.store.set_compact();
    CHECK(on.controller->register_channel(caller_on(kChannel.host), kChannel, 1, 0).ok());
    refused(on.controller->register_channel(caller_on(kBeyond.host), kBeyond, 2, 1), Errc::kUnsupported,
            "dedupe = \"compact\" wants one");
    // One whose route gets another next hop stays behind the port that it was.
    constexpr ChannelId kSecond{0xc6126602, 49152};
    on.store.uplinks = {11};
    REQUIRE(on.controller->register_channel(caller_on(kSecond.host), kSecond, 1, 0).ok());
    const auto ports = [&] {
        const auto index = on.store.channel_ids().find({htonl(kSecond.host), htons(kSecond.port), 0});
        REQUIRE(index->has_value());
        return on.store.channels().find(**index)->value().ports;
    };
    on.store.uplinks = {11, 12};
    on.controller->follow_routes();
    CHECK(ports().ifindex[1] == 0);
    on.store.uplinks = {12};
    on.controller->follow_routes();
    CHECK(ports().ifindex[0] == 12);
}

TEST_CASE("regions leave room for flows that open tasks have declared, but for no more than may be had") {
    constexpr std::uint64_t kTasks = 12;
    constexpr std::uint32_t kSenders = 2;
    MemorySwitch store(64);
    store.set_pipelines();
    auto controller = Controller::create(store, {.sram_bytes = 4U << 20U, .aggregators = 1U << 16U});
    REQUIRE(controller.ok());
    const auto open = [&](std::uint64_t instance, std::uint32_t receiver, std::uint32_t senders,
                          std::optional<ask_policy> policy = std::nullopt) {
        TaskRequest request;
        request.id = "task" + std::to_string(instance);
        request.instance = instance;
        request.geometry = {.short_slots = 16, .groups = 8, .m = 2, .rows = 5};
        request.copies = 2;
        request.receiver = receiver == kReceiver ? "198.18.2.2:4791" : "198.18.2.3:4791";
        request.receiver_address = receiver;
        request.senders = senders;
        request.policy = policy;
        return (*controller)->open_task(caller_on(receiver), request);
    };
    const auto join = [&](std::uint64_t instance, std::uint32_t sender) {
        const ChannelId channel{kChannel.host,
                                static_cast<std::uint16_t>(49152 + instance * kSenders + sender)};
        REQUIRE((*controller)->register_channel(caller_on(channel.host), channel, 1, 0).ok());
        return (*controller)->join_flow(caller_on(kReceiver), instance, channel, 1, kSecret);
    };
    for (std::uint64_t instance = 1; instance <= kTasks; ++instance) {
        REQUIRE(open(instance, kReceiver, kSenders).ok());
        REQUIRE(join(instance, 0).ok());
    }
    for (std::uint64_t instance = 1; instance <= kTasks; ++instance) {
        for (std::uint32_t sender = 1; sender < kSenders; ++sender) {
            const auto joined = join(instance, sender);
            CHECK_MESSAGE(joined.ok(), joined.error().text());
        }
    }
    // Somebody who declares more than there are keeps others from nothing but what he may have himself.
    constexpr std::uint32_t kOther = kReceiver + 1;
    MemorySwitch fresh;
    fresh.set_pipelines();
    controller = Controller::create(fresh, {.sram_bytes = 32U << 20U, .aggregators = 1U << 16U});
    REQUIRE(controller.ok());
    REQUIRE(open(1, kReceiver, 4'000'000'000, ASK_POLICY_REPLACE).ok());
    const auto grant = open(2, kOther, 1, ASK_POLICY_FIRST_COME);
    REQUIRE_MESSAGE(grant.ok(), grant.error().text());
    // The least region is 64.
    CHECK(grant->aggregators == 2048);
}

TEST_CASE("a region that was made anew is another: what was meant for the first is refused by name") {
    const OneTask on;
    const RegionId first = on.open();
    CHECK(first.nonce != 0);
    // Asked for again.
    CHECK(on.open() == first);
    on.close();
    const RegionId second = on.open();
    CHECK(second.nonce != first.nonce);
    const Caller receiver = caller_on(kReceiver);
    refused(on.controller->begin_fetch(receiver, first, 0), Errc::kUnknown, "made anew");
    refused(on.controller->close_epoch(receiver, first, 0), Errc::kUnknown, "made anew");
    refused(on.controller->confirm(receiver, first, 0), Errc::kUnknown, "made anew");
    refused(on.controller->begin_fetch(receiver, {kInstance, 0}, 0), Errc::kUnknown, "made anew");
    CHECK(on.controller->begin_fetch(receiver, second, 0).ok());
}

TEST_CASE("a successor knows the region by its nonce, and so does every report") {
    OneTask on;
    const RegionId region = on.open();
    on.start();
    CHECK(on.open() == region);
    const auto parts =
        on.controller->report_tasks(caller_on(kReceiver), std::vector<std::uint64_t>{kInstance});
    REQUIRE(parts.ok());
    CHECK(parts->at(0).nonce == region.nonce);
    const auto end = fetch_copy(*on.controller, caller_on(kReceiver), {.region = region, .settled = true}, 64,
                                [](const std::string& /*entries*/) { return true; });
    REQUIRE(end.ok());
    CHECK((*end)->nonce == region.nonce);
}

TEST_CASE("a copy whose region is made anew while it is read does not end well") {
    const OneTask on;
    const auto source = on.controller->begin_fetch(caller_on(kReceiver), on.open(), 0);
    REQUIRE(source.ok());
    on.close();
    static_cast<void>(on.open());
    refused(on.controller->end_fetch(*source), Errc::kAborted, "went on");
}

TEST_CASE("what a flow has counted is its task's, though channel and daemon go") {
    OneTask on;
    static_cast<void>(on.open());
    on.channel(kChannel, 3);
    const auto nonce = on.join(kChannel, 3);
    REQUIRE(nonce.ok());
    CHECK(*on.join(kChannel, 3) == *nonce);
    on.store.count(0, 5);
    REQUIRE(on.controller->unregister_channel(caller_on(kChannel.host), kChannel, 3).ok());
    for (int daemons = 0; daemons < 3; ++daemons) {
        const auto flows = on.flows();
        REQUIRE(flows.size() == 1);
        CHECK(flows[0].channel == kChannel);
        CHECK(flows[0].incarnation == 3);
        CHECK(flows[0].nonce == *nonce);
        CHECK(flows[0].stats.tuples_aggregated == 5);
        on.start();
    }
    on.close();
    on.start();
    CHECK(on.controller->report()->flow_indices == IndexUse{});
}

TEST_CASE(
    "a channel that has sent in a task does not join it again; one that has not may, and is another flow") {
    OneTask on;
    static_cast<void>(on.open());
    on.channel(kChannel, 3);
    const auto first = on.join(kChannel, 3);
    on.channel(kChannel, 4, 3);
    const auto second = on.join(kChannel, 4, {3, 4});
    REQUIRE(second.ok());
    CHECK(*second != *first);
    const std::uint32_t index = 1;
    on.store.count(index, 1);
    on.channel(kChannel, 5, 4);
    refused(on.join(kChannel, 5), Errc::kExists, "under another incarnation");
    on.start();
    refused(on.join(kChannel, 5), Errc::kExists, "under another incarnation");
    REQUIRE(on.flows().size() == 1);
    CHECK(on.flows()[0].nonce == *second);
}

TEST_CASE("a flow whose channel is gone makes no room for another while its task is open") {
    const OneTask on;
    static_cast<void>(on.open());
    const auto channel_at = [](std::uint32_t i) {
        return ChannelId{kChannel.host, static_cast<std::uint16_t>(kChannel.port + i)};
    };
    for (std::uint32_t i = 0; i < 8; ++i) {
        on.channel(channel_at(i), 3);
        REQUIRE(on.join(channel_at(i), 3).ok());
        REQUIRE(on.controller->unregister_channel(caller_on(kChannel.host), channel_at(i), 3).ok());
    }
    on.channel(kChannel, 4);
    const auto ninth = on.join(channel_at(8), 3);
    CHECK_FALSE(ninth.ok());
    CHECK(on.flows().size() == 8);
}

TEST_CASE("a channel that has no task is given up after a lease, and its host registers it again") {
    OneTask on;
    constexpr ChannelId kWaits{kChannel.host, kChannel.port + 1};
    const auto has = [&on](ChannelId id) {
        const auto report = on.controller->report();
        REQUIRE(report.ok());
        return std::ranges::any_of(report->channels,
                                   [id](const ChannelReport& channel) { return channel.channel == id; });
    };
    // Of what is granted from now on; what is open keeps its lease.
    const auto expire_within = [&on](std::chrono::seconds lease) {
        on.controller->change_limits({.sram_bytes = 1U << 20U, .lease = lease, .quota = {.flows = 8}});
        on.controller->expire_leases();
    };
    static_cast<void>(on.open());
    on.channel(kChannel, 3);
    REQUIRE(on.join(kChannel, 3).ok());
    expire_within(std::chrono::seconds(0));
    CHECK(has(kChannel));
    on.channel(kWaits, 3);
    on.close();
    expire_within(std::chrono::seconds(30));
    CHECK(has(kChannel));
    CHECK(has(kWaits));
    SUBCASE("one that was never in a task, too") {
        expire_within(std::chrono::seconds(0));
        CHECK_FALSE(has(kWaits));
    }
    SUBCASE("adopted, it has a lease of its own") {
        on.start();
        CHECK(has(kWaits));
        expire_within(std::chrono::seconds(30));
        CHECK(has(kWaits));
        expire_within(std::chrono::seconds(0));
        CHECK_FALSE(has(kWaits));
        CHECK_FALSE(has(kChannel));
    }
    SUBCASE("its host hears of it when it joins") {
        expire_within(std::chrono::seconds(0));
        CHECK_FALSE(has(kChannel));
        expire_within(std::chrono::seconds(30));
        static_cast<void>(on.open());
        refused(on.join(kChannel, 3), Errc::kUnknown, "is not registered on this switch");
        on.channel(kChannel, 4);
        CHECK(on.join(kChannel, 4).ok());
    }
}
