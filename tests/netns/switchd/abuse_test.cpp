// SPDX-License-Identifier: Apache-2.0
//
// Requests that must be refused, limits that must hold, and many callers at once.
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/rpc/types.h"
#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"

namespace {

using ask::ChannelId;
using ask::CheckSecret;
using ask::test::Daemon;
using ask::test::kChannel;
using ask::test::kInstance;
using ask::test::kSecret;
using ask::test::must;
using ask::test::task_request;
using grpc::StatusCode;

ChannelId channel(std::uint32_t number) {
    return {ask::test::kHost1, static_cast<std::uint16_t>(49152 + number)};
}

void refused(const grpc::Status& status, StatusCode code, const std::string& text) {
    CHECK_MESSAGE(status.error_code() == code, status.error_message());
    CHECK_MESSAGE(status.error_message().find(text) != std::string::npos, status.error_message());
}

}  // namespace

TEST_CASE("channels that cannot be are refused") {
    Daemon daemon;
    const auto bad = StatusCode::INVALID_ARGUMENT;
    refused(daemon.register_channel({0xc6130102, 49152}, 1), bad, "198.19.1.2");
    refused(daemon.register_channel({0xc6120101, 49152}, 1), bad,
            "not behind one of the switch's ports (p1, p2)");
    refused(daemon.register_channel({0x7f000001, 49152}, 1), bad, "no host's");
    refused(daemon.register_channel({0xe0000001, 49152}, 1), bad, "no host's");
    refused(daemon.register_channel({0, 49152}, 1), bad, "no host's");
    refused(daemon.register_channel({ask::test::kHost1, 49151}, 1), bad, "from 49152 to 50175");
    refused(daemon.register_channel({ask::test::kHost1, 50176}, 1), bad, "from 49152 to 50175");
    refused(daemon.register_channel(kChannel, 0), bad, "incarnation 0");
    ask::v1::RegisterChannelRequest request;
    ask::v1::RegisterChannelReply reply;
    request.mutable_channel()->set_host(ask::test::kHost1);
    request.mutable_channel()->set_port(49152 + 65536);
    request.set_incarnation(1);
    grpc::ClientContext context;
    refused(daemon.stub().RegisterChannel(&context, request, &reply), bad, "past 65535");
    CHECK(daemon.status().channels_size() == 0);
}

TEST_CASE("tasks that cannot be are refused") {
    Daemon daemon;
    const auto refused_with = [&daemon](const std::string& text, auto change) {
        auto request = task_request("words", kInstance);
        change(request);
        refused(daemon.open_task(request), StatusCode::INVALID_ARGUMENT, text);
    };
    refused_with("task id", [](auto& request) { request.set_id(""); });
    refused_with("task id", [](auto& request) { request.set_id("a.b"); });
    refused_with("task id", [](auto& request) { request.set_id("../x"); });
    refused_with("task id", [](auto& request) { request.set_id(std::string(64, 'a')); });
    refused_with("instance 0", [](auto& request) { request.set_instance(0); });
    refused_with("geometry", [](auto& request) { request.mutable_geometry()->set_rows(256); });
    refused_with("rows", [](auto& request) { request.mutable_geometry()->set_rows(0); });
    refused_with("", [](auto& request) { request.mutable_geometry()->set_short_slots(33); });
    refused_with("operator", [](auto& request) { request.set_op(ask::v1::OPERATOR_COUNT); });
    refused_with("operator", [](auto& request) { request.set_op(static_cast<ask::v1::Operator>(99)); });
    refused_with("copies", [](auto& request) { request.set_copies(3); });
    refused_with("aggregators", [](auto& request) { request.set_aggregators((1U << 24U) + 1); });
    refused_with("receiver", [](auto& request) { request.set_receiver(std::string(64, 'r')); });
    refused_with("receiver", [](auto& request) { request.set_receiver("a\nb"); });
    refused_with("0.0.0.0 is no host's", [](auto& request) { request.set_receiver_address(0); });
    refused_with("127.0.0.1 is no host's", [](auto& request) { request.set_receiver_address(0x7f000001); });
    refused_with("224.0.0.1 is no host's", [](auto& request) { request.set_receiver_address(0xe0000001); });
    refused_with("requires a region", [](auto& request) {
        request.set_copies(0);
        request.set_require_region(true);
    });
    CHECK(daemon.status().tasks_size() == 0);
    CHECK(ask::test::pinned_paths().find("tasks/") == std::string::npos);
}

TEST_CASE("tasks of hosts that speak another wire version are refused, and the switch says its own") {
    Daemon daemon;
    const auto refused_of = [&daemon](std::uint32_t version, const std::string& text) {
        auto request = task_request("words", kInstance);
        request.set_wire_version(version);
        refused(daemon.open_task(request), StatusCode::FAILED_PRECONDITION, text);
    };
    refused_of(0, "your agent speaks ASK packets of an older version, the other end of the call " +
                      ask::wire_version_name(ASK_WIRE_VERSION));
    refused_of(ASK_WIRE_VERSION + 1,
               "your agent speaks ASK packets of " + ask::wire_version_name(ASK_WIRE_VERSION + 1));
    CHECK(daemon.status().tasks_size() == 0);
    ask::v1::OpenTaskReply reply;
    must(daemon.open_task(task_request("words", kInstance), &reply));
    CHECK(reply.wire_version() == ASK_WIRE_VERSION);
}

TEST_CASE("an id or an instance in use is refused, naming who has it") {
    Daemon daemon;
    must(daemon.open_task(task_request("words", kInstance)));
    refused(daemon.open_task(task_request("words", kInstance + 1)), StatusCode::ALREADY_EXISTS,
            "198.18.2.2:4791");
    refused(daemon.open_task(task_request("other", kInstance)), StatusCode::ALREADY_EXISTS, "task words");
    auto changed = task_request("words", kInstance);
    changed.set_op(ask::v1::OPERATOR_MAX);
    refused(daemon.open_task(changed), StatusCode::ALREADY_EXISTS, "other properties");
    changed = task_request("words", kInstance);
    changed.set_receiver_address(ask::test::kHost1);
    refused(daemon.open_task(changed), StatusCode::PERMISSION_DENIED, "packets would go to 198.18.1.2");
    CHECK(daemon.status().tasks_size() == 1);
}

TEST_CASE("flows that cannot be are refused") {
    Daemon daemon;
    must(daemon.open_task(task_request("words", kInstance)));
    refused(daemon.join_flow(kInstance + 1, kChannel, 1, kSecret), StatusCode::NOT_FOUND, "no task");
    refused(daemon.join_flow(kInstance, kChannel, 1, kSecret), StatusCode::NOT_FOUND, "not registered");
    must(daemon.register_channel(kChannel, 1));
    refused(daemon.join_flow(kInstance, kChannel, 2, kSecret), StatusCode::FAILED_PRECONDITION,
            "incarnation");
    must(daemon.join_flow(kInstance, kChannel, 1, kSecret));
    refused(daemon.join_flow(kInstance, kChannel, 1, {3, 4}), StatusCode::ALREADY_EXISTS, "another secret");
    ask::v1::JoinFlowRequest request;
    ask::v1::JoinFlowReply reply;
    request.set_instance(kInstance);
    request.set_secret("short");
    grpc::ClientContext context;
    refused(daemon.stub().JoinFlow(&context, request, &reply), StatusCode::INVALID_ARGUMENT, "5 bytes");
    std::vector<Daemon::Entry> entries;
    refused(daemon.fetch(kInstance, 1, &entries), StatusCode::FAILED_PRECONDITION, "epoch 0");
    refused(daemon.fetch(kInstance + 1, 0, &entries), StatusCode::NOT_FOUND, "no task");
    CHECK(daemon.status().tasks(0).flows() == 1);
}

TEST_CASE("packets longer than the sender's port takes are refused at joining") {
    Daemon daemon;
    must(daemon.register_channel(kChannel, 1));
    auto request = task_request("words", kInstance);
    request.mutable_geometry()->set_rows(5);
    must(daemon.open_task(request));
    must(daemon.join_flow(kInstance, kChannel, 1, kSecret));
    auto large = task_request("large", kInstance + 1);
    large.mutable_geometry()->set_short_slots(4);
    large.mutable_geometry()->set_groups(15);
    large.mutable_geometry()->set_m(4);
    large.mutable_geometry()->set_rows(3);
    must(daemon.open_task(large));
    refused(daemon.join_flow(kInstance + 1, kChannel, 1, kSecret), StatusCode::FAILED_PRECONDITION,
            "port p1 has 1500");
}

TEST_CASE("tables have their limits, and what is given back can be had again") {
    Daemon daemon("--max-channels 2 --max-flows 2 --max-tasks 2");
    const auto full = StatusCode::RESOURCE_EXHAUSTED;
    for (std::uint32_t i = 0; i < 2; i++) {
        must(daemon.register_channel(channel(i), 1));
        must(daemon.open_task(task_request("task" + std::to_string(i), i + 1)));
        must(daemon.join_flow(1, channel(i), 1, kSecret));
    }
    refused(daemon.register_channel(channel(2), 1), full, "max_channels");
    refused(daemon.open_task(task_request("task2", 3)), full, "max_tasks");
    refused(daemon.join_flow(2, channel(0), 1, kSecret), full, "max_flows");
    // Waits for the barrier behind the index that has just become free.
    must(daemon.unregister_channel(channel(0), 1));
    must(daemon.register_channel(channel(2), 1));
    // What a flow counted is its task's, though its channel is gone.
    refused(daemon.join_flow(2, channel(2), 1, kSecret), full, "max_flows");
    must(daemon.close_task(1));
    must(daemon.join_flow(2, channel(2), 1, kSecret));
    must(daemon.open_task(task_request("task2", 3)));
    must(daemon.join_flow(3, channel(2), 1, kSecret));
    CHECK(daemon.status().channels_size() == 2);
    CHECK(daemon.status().tasks_size() == 2);
}

TEST_CASE("regions are granted against the SRAM budget") {
    auto large = task_request("large", 1);
    large.set_aggregators(32768);
    auto second = large;
    second.set_id("second");
    second.set_instance(2);
    {
        Daemon daemon("--sram-kib 12288");
        must(daemon.open_task(large));
        ask::v1::OpenTaskReply reply;
        must(daemon.open_task(second, &reply));
        CHECK(reply.aggregators() == 0);
        CHECK_MESSAGE(reply.no_region_reason().find("4096 of 12288 KiB are left") != std::string::npos,
                      reply.no_region_reason());
        auto third = second;
        third.set_id("third");
        third.set_instance(3);
        third.set_require_region(true);
        refused(daemon.open_task(third), StatusCode::RESOURCE_EXHAUSTED,
                "task third: the region takes 8192 KiB");
        must(daemon.close_task(1));
        must(daemon.open_task(third, &reply));
        CHECK(reply.aggregators() == 32768);
        auto huge = task_request("huge", 4);
        huge.set_aggregators(1U << 24U);
        must(daemon.open_task(huge, &reply));
        CHECK(reply.no_region_reason().find("a stage has 768 KiB") != std::string::npos);
    }
    Daemon daemon("--sram-kib 12288 --allow-over-budget");
    must(daemon.open_task(large));
    ask::v1::OpenTaskReply reply;
    must(daemon.open_task(second, &reply));
    CHECK(reply.aggregators() == 32768);
}

TEST_CASE("who does not insist on a size gets a part of what is free, so that others get some") {
    Daemon daemon("--sram-kib 20480");
    ask::v1::OpenTaskReply reply;
    // Nothing is known of these: an eighth, and so on.
    for (std::uint64_t i = 1; i <= 10; ++i) {
        auto request = task_request("unknown" + std::to_string(i), i);
        request.set_aggregators(0);
        must(daemon.open_task(request, &reply));
        CHECK(reply.aggregators() > 0);
        CHECK(reply.aggregators() <= 8192);
    }
    // And these would like more than there is: half of it.
    for (std::uint64_t i = 11; i <= 20; ++i) {
        auto request = task_request("planned" + std::to_string(i), i);
        request.set_aggregators(32768);
        request.set_may_shrink(true);
        must(daemon.open_task(request, &reply));
        CHECK(reply.aggregators() > 0);
        CHECK(reply.aggregators() < 32768);
    }
    const ask::v1::SwitchStatus status = daemon.status();
    CHECK(status.tasks_size() == 20);
    CHECK(status.sram_used_bytes() <= status.sram_total_bytes());
    auto small = task_request("small", 21);
    small.set_aggregators(100);
    small.set_may_shrink(true);
    must(daemon.close_task(1));
    must(daemon.open_task(small, &reply));
    CHECK(reply.aggregators() == 100);
    CHECK(daemon.log().find("gets no region") == std::string::npos);
    auto insists = task_request("insists", 22);
    insists.set_aggregators(32768);
    must(daemon.open_task(insists, &reply));
    CHECK(reply.aggregators() == 0);
    CHECK(daemon.log().find("task insists of 198.18.2.2:4791 gets no region") != std::string::npos);
}

TEST_CASE("many callers at once leave nothing behind") {
    Daemon daemon("--max-channels 4 --max-flows 4 --max-tasks 4");
    constexpr std::uint32_t kCallers = 8;
    constexpr std::uint32_t kRounds = 12;
    std::atomic<std::uint32_t> done = 0;
    std::atomic<std::uint32_t> unexpected = 0;
    const auto fine = [&unexpected](const grpc::Status& status) {
        if (!status.ok() && status.error_code() != StatusCode::RESOURCE_EXHAUSTED &&
            status.error_code() != StatusCode::NOT_FOUND &&
            status.error_code() != StatusCode::ALREADY_EXISTS) {
            unexpected++;
        }
        return status.ok();
    };
    std::vector<std::thread> callers;
    for (std::uint32_t caller = 0; caller < kCallers; caller++) {
        callers.emplace_back([&, caller] {
            for (std::uint32_t round = 0; round < kRounds; round++) {
                const std::uint64_t instance = 1 + caller * kRounds + round;
                // Pairs of callers fight for an id.
                const bool opened =
                    fine(daemon.open_task(task_request("task" + std::to_string(caller / 2), instance)));
                const bool registered = fine(daemon.register_channel(channel(caller), round + 1));
                done += opened && registered &&
                        fine(daemon.join_flow(instance, channel(caller), round + 1, kSecret));
                fine(daemon.close_task(instance));
                fine(daemon.unregister_channel(channel(caller), round + 1));
            }
        });
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
    CHECK(unexpected == 0);
    CHECK(done > 0);
    const ask::v1::SwitchStatus status = daemon.status();
    CHECK(status.tasks_size() == 0);
    CHECK(status.channels_size() == 0);
    CHECK(ask::test::pinned_paths().find("tasks/") == std::string::npos);
    // All indices came back.
    for (std::uint32_t i = 0; i < 4; i++) {
        must(daemon.register_channel(channel(i), 99));
        must(daemon.open_task(task_request("after" + std::to_string(i), 1000 + i)));
        must(daemon.join_flow(1000 + i, channel(i), 99, kSecret));
    }
}
