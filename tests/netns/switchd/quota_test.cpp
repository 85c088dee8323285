// SPDX-License-Identifier: Apache-2.0
//
// What one host can take of a switch, and what is left to others.
#include <string>

#include <doctest/doctest.h>

#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"

namespace {

using ask::ChannelId;
using ask::test::Daemon;
using ask::test::kChannel;
using ask::test::kHost2;
using ask::test::kIncarnation;
using ask::test::kInstance;
using ask::test::kSecret;
using ask::test::must;
using ask::test::task_request;

constexpr std::uint32_t kGreedy = 0xc6120103;  // 198.18.1.3, behind the sender's port

ChannelId channel_of(std::uint32_t host, std::uint32_t number) {
    return {host, static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + number)};
}

ask::v1::OpenTaskRequest small_task(std::uint64_t number) {
    auto request = task_request("t" + std::to_string(number), number);
    request.clear_receiver();
    request.set_receiver_address(kGreedy);
    request.set_copies(0);
    return request;
}

void out_of(const grpc::Status& status, const std::string& what) {
    CHECK(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    CHECK_MESSAGE(status.error_message().find(what) != std::string::npos, status.error_message());
}

// How many of `most` it gets.
template <typename Call>
unsigned as_many(unsigned most, const std::string& refusal, Call call) {
    for (unsigned i = 0; i < most; ++i) {
        if (const grpc::Status status = call(i); !status.ok()) {
            out_of(status, refusal);
            return i;
        }
    }
    return most;
}

}  // namespace

TEST_CASE("one host cannot take all of a switch: others still get a task, a channel and a flow") {
    Daemon daemon("--max-tasks 8 --max-channels 8 --max-flows 8");
    daemon.call_as(kGreedy);
    CHECK(as_many(8, "task t8: host 198.18.1.3 has 7 of the 7 tasks",
                  [&](unsigned i) { return daemon.open_task(small_task(i + 1)); }) == 7);
    CHECK(as_many(8, "raise its quota_channels",
                  [&](unsigned i) { return daemon.register_channel(channel_of(kGreedy, i), 1); }) == 7);
    CHECK(as_many(8, "has 7 of the 7 flows", [&](unsigned i) {
              return daemon.join_flow(1 + i / 4, channel_of(kGreedy, i % 4), 1, kSecret);
          }) == 7);
    daemon.call_as(kHost2);
    ask::test::open_and_join(daemon, task_request("words", kInstance));
    // What is given back may be had again.
    daemon.call_as(kGreedy);
    must(daemon.close_task(1));
    must(daemon.open_task(small_task(9)));
    must(daemon.join_flow(9, channel_of(kGreedy, 5), 1, kSecret));
    must(daemon.unregister_channel(channel_of(kGreedy, 0), 1));
    must(daemon.register_channel(channel_of(kGreedy, 8), 1));
}

TEST_CASE("channels and what flows carry are granted against the SRAM budget, and its quota") {
    {
        // Four channels of 18 KiB.
        Daemon daemon("--sram-kib 72");
        CHECK(as_many(8, "quota_sram_kib",
                      [&](unsigned i) { return daemon.register_channel(channel_of(kGreedy, i), 1); }) == 3);
        must(daemon.register_channel(kChannel, kIncarnation));
        out_of(daemon.register_channel(channel_of(kChannel.host, 1), 1),
               "a channel takes 18 KiB of SRAM, 0 of 72 KiB are left");
        // In place of one that is there.
        must(daemon.register_channel(kChannel, kIncarnation + 1, nullptr, kIncarnation));
        const auto status = daemon.status();
        CHECK(status.sram_used_bytes() == status.sram_total_bytes());
    }
    Daemon daemon("--sram-kib 1200 --quota-sram-kib 1200");
    auto replacing = task_request("words", kInstance);
    replacing.set_policy(ask::v1::POLICY_REPLACE);
    replacing.set_aggregators(16);
    must(daemon.open_task(replacing));
    const unsigned joined = as_many(8, "KiB of SRAM", [&](unsigned i) {
        must(daemon.register_channel(channel_of(kChannel.host, i), 1));
        return daemon.join_flow(kInstance, channel_of(kChannel.host, i), 1, kSecret);
    });
    CHECK(joined > 1);
    CHECK(joined < 8);
    const auto status = daemon.status();
    CHECK(status.sram_used_bytes() <= status.sram_total_bytes());
}

TEST_CASE("a task replaces cold keys by the switch's choice only where all its senders' packets find room") {
    Daemon daemon("--sram-kib 4096 --memory pipelines");
    auto request = task_request("few", 1);
    request.clear_policy();
    request.set_senders(3);
    ask::v1::OpenTaskReply reply;
    must(daemon.open_task(request, &reply));
    CHECK(reply.policy() == ask::v1::POLICY_REPLACE);
    request.set_id("many");
    request.set_instance(2);
    request.set_senders(200);
    must(daemon.open_task(request, &reply));
    CHECK(reply.policy() == ask::v1::POLICY_FIRST_COME);
    CHECK(reply.aggregators() == 1024);
}

TEST_CASE("a successor counts what it adopts towards the quotas") {
    const std::string limits = "--max-tasks 8 --max-channels 8 --quota-tasks 2 --quota-channels 2";
    Daemon first(limits);
    first.call_as(kGreedy);
    for (unsigned i = 0; i < 2; ++i) {
        must(first.open_task(small_task(i + 1)));
        must(first.register_channel(channel_of(kGreedy, i), 1));
    }
    first.end(SIGKILL);
    Daemon second(limits);
    second.call_as(kGreedy);
    out_of(second.open_task(small_task(3)), "has 2 of the 2 tasks");
    out_of(second.register_channel(channel_of(kGreedy, 2), 1), "has 2 of the 2 channels");
    must(second.close_task(1));
    must(second.open_task(small_task(3)));
}

TEST_CASE("packets past a tenant's rate are dropped and counted, until a successor has another limit") {
    {
        Daemon daemon("--quota-packets 1");
        ask::test::open_and_join(daemon, task_request("words", kInstance));
        // The second comes long before a second is over, or is the first of the next one.
        std::uint64_t seq = 0;
        std::uint32_t verdict = XDP_TX;
        while (verdict == XDP_TX && seq < 50) {
            verdict = ask::test::send_one(++seq, "k", 1);
        }
        CHECK(verdict == XDP_DROP);
        CHECK(ask::test::counter(daemon.status(), "drop_rate") == 1);
        daemon.end(SIGKILL);
        Daemon next("");
        CHECK(ask::test::send_one(seq, "k", 1) == XDP_TX);
        CHECK(ask::test::counter(next.status(), "drop_rate") == 1);
        CHECK(ask::test::fetched(next) == ask::test::Entries{{"k", static_cast<std::int32_t>(seq)}});
    }
}
