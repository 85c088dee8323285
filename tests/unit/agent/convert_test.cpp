// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/convert.h"

#include <string>

#include <doctest/doctest.h>

#include "lib/client/convert.h"
#include "lib/rpc/clean_message.h"
#include "proto/agent.pb.h"
#include "proto/switch.pb.h"

using namespace ask;

namespace {

v1::ChannelId channel(std::uint32_t host, std::uint32_t port) {
    v1::ChannelId message;
    message.set_host(host);
    message.set_port(port);
    return message;
}

v1::Mark mark(std::uint32_t id, std::uint32_t incarnation) {
    v1::Mark message;
    message.set_switch_id(id);
    message.set_incarnation(incarnation);
    return message;
}

}  // namespace

TEST_CASE("task ids are names of directories") {
    for (const char* good : {"a", "word-count_2", "ABC", "0"}) {
        CHECK(check_task_id(good).ok());
    }
    CHECK(check_task_id(std::string(63, 'x')).ok());
    const std::string zero("a\0b", 3);
    const std::string longest(64, 'x');
    for (const std::string_view bad :
         {std::string_view(), std::string_view("."), std::string_view("a/b"), std::string_view("a b"),
          std::string_view("ä"), std::string_view(zero), std::string_view(longest)}) {
        CAPTURE(bad);
        const auto refused = check_task_id(bad);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kUsage);
    }
}

TEST_CASE("names of strangers are made harmless") {
    CHECK(clean_name("h1 (198.18.1.2)") == "h1 (198.18.1.2)");
    CHECK(clean_name("a\nb\x1b[31m") == "a\\x0ab\\x1b[31m");
    CHECK(clean_name(std::string(1000, 'x')).size() == 128);
    CHECK(clean_text(std::string(5000, 'x')).size() == 1024);
}

TEST_CASE("messages of strangers are made harmless, however deep, but for their bytes") {
    v1::AgentStatus status;
    status.set_name("h1\x1b[2J");
    v1::AgentTask& task = *status.add_tasks();
    task.set_note("no\nregion");
    task.add_senders_joined("plain");
    task.add_senders_joined(
        "\xe2\x80\xae"
        "evil");
    status.add_channels()->set_task_id(std::string(5000, '\r'));
    clean_strings(status);
    CHECK(status.name() == "h1\\x1b[2J");
    CHECK(status.tasks(0).note() == "no\\x0aregion");
    CHECK(status.tasks(0).senders_joined(0) == "plain");
    CHECK(status.tasks(0).senders_joined(1) == "\\xe2\\x80\\xaeevil");
    CHECK(status.channels(0).task_id().size() <= kLongestText);
    v1::FetchChunk chunk;
    chunk.set_entries("\x1b\n");
    clean_strings(chunk);
    CHECK(chunk.entries() == "\x1b\n");
}

TEST_CASE("channels have an address and a channel's port") {
    const auto first = channel_from_proto(channel(0xC6120102, ASK_CHANNEL_PORT_BASE));
    REQUIRE(first.ok());
    CHECK(first->host == 0xC6120102);
    CHECK(channel_to_proto(*first).port() == ASK_CHANNEL_PORT_BASE);
    CHECK(channel_from_proto(channel(1, ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST - 1)).ok());
    for (const auto& bad :
         {channel(0, ASK_CHANNEL_PORT_BASE), channel(1, ASK_CHANNEL_PORT_BASE - 1), channel(1, 0),
          channel(1, ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST), channel(1, 65536 + 49152)}) {
        CAPTURE(bad.port());
        CHECK_FALSE(channel_from_proto(bad).ok());
    }
}

TEST_CASE("a mark is whole or none") {
    CHECK(mark_from_proto(mark(0, 0)).ok());
    CHECK(mark_from_proto(mark(65535, 7)).ok());
    for (const auto& bad : {mark(0, 7), mark(3, 0), mark(65536, 7)}) {
        CHECK_FALSE(mark_from_proto(bad).ok());
    }
}

TEST_CASE("secrets travel as 16 bytes, little-endian") {
    const CheckSecret secret{0x0807060504030201ULL, 0x100f0e0d0c0b0a09ULL};
    const std::string bytes = secret_to_bytes(secret);
    REQUIRE(bytes.size() == 16);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        CHECK(static_cast<std::size_t>(bytes[i]) == i + 1);
    }
    CHECK(*secret_from_bytes(bytes) == secret);
    CHECK_FALSE(secret_from_bytes(bytes.substr(1)).ok());
    CHECK_FALSE(secret_from_bytes(bytes + "x").ok());
    CHECK_FALSE(secret_from_bytes("").ok());
}

TEST_CASE("geometries are checked, whatever the message says") {
    v1::Geometry good = geometry_to_proto(Geometry{});
    CHECK(*geometry_from_proto(good) == Geometry{});
    good.set_rows(256 + 4);
    CHECK_FALSE(geometry_from_proto(good).ok());
    CHECK_FALSE(geometry_from_proto(v1::Geometry()).ok());
}

TEST_CASE("operators are those of the wire") {
    CHECK(*wire_op(v1::OPERATOR_COUNT) == Op::kSum);
    CHECK(*wire_op(v1::OPERATOR_SUM) == Op::kSum);
    CHECK(*wire_op(v1::OPERATOR_MIN) == Op::kMin);
    CHECK(*wire_op(v1::OPERATOR_MAX) == Op::kMax);
    CHECK_FALSE(wire_op(v1::OPERATOR_UNSPECIFIED).ok());
    CHECK_FALSE(wire_op(static_cast<v1::Operator>(99)).ok());
}

constexpr std::uint32_t kHere = 0xc6120102U;

TEST_CASE("bytes of frames count the headers of the host's family") {
    SenderStats sender;
    sender.payload_bytes = 1000;
    sender.packets_sent = 10;
    v1::FlowStats stats;
    set_sender_part(stats, sender, kHere);
    CHECK(stats.frame_bytes() == 1420);
    set_sender_part(stats, sender, 0xf5199f9cU);
    CHECK(stats.frame_bytes() == 1620);
}

TEST_CASE("each part of the statistics leaves the others alone") {
    v1::FlowStats stats;
    SenderStats sender;
    sender.packer.tuples_in = 7;
    sender.tuples_merged = 3;
    set_sender_part(stats, sender, kHere);
    FlowRxStats receiver;
    receiver.items_data = 4;
    set_receiver_part(stats, receiver);
    v1::FlowStats of_switch;
    of_switch.set_tuples_switch(2);
    of_switch.set_tuples_evicted(1);
    of_switch.set_tuples_in(999);
    add_switch_part(stats, of_switch);
    CHECK(stats.tuples_in() == 10);
    CHECK(stats.tuples_sent() == 7);
    CHECK(stats.tuples_data() == 4);
    CHECK(stats.tuples_switch() == 2);
    v1::FlowStats sum;
    add_stats(sum, stats);
    add_stats(sum, stats);
    CHECK(sum.tuples_sent() == 14);
    CHECK(sum.tuples_data() == 8);
    CHECK(sum.tuples_switch() == 4);
    CHECK(sum.tuples_evicted() == 2);
}

TEST_CASE("packets by their tuples are told as far as there are any, and added up") {
    SenderStats sender;
    sender.packer.bodies[0] = 1;
    sender.packer.bodies[3] = 5;
    v1::FlowStats told;
    set_sender_part(told, sender, kHere);
    CHECK(told.packets_by_tuples_size() == 4);
    v1::FlowStats sum;
    add_stats(sum, v1::FlowStats());
    add_stats(sum, told);
    sender.packer.bodies[128] = 2;
    set_sender_part(told, sender, kHere);
    add_stats(sum, told);
    CHECK(sum.packets_by_tuples_size() == 129);
    CHECK(sum.packets_by_tuples(3) == 10);
    CHECK(sum.packets_by_tuples(128) == 2);
    told.mutable_packets_by_tuples()->Resize(100'000, 1);
    copy_sender_part(sum, told);
    CHECK(sum.packets_by_tuples_size() == 129);
}

TEST_CASE("a key sample comes out as it went in, and one that cannot be is refused") {
    KeySampler sampler(public_seed(1));
    for (const char* key : {"a", "b", "a", "eight by", "a key of more than sixteen bytes"}) {
        sampler.add(key, 1);
    }
    KeySample sample = sampler.finish(77);
    sample.window = 64;
    const v1::KeySample good = sample_to_proto(sample);
    const auto back = sample_from_proto(good);
    REQUIRE(back.ok());
    CHECK(*back == sample);
    const auto refused = [&](auto change) {
        v1::KeySample broken = good;
        change(broken);
        const auto result = sample_from_proto(broken);
        return !result.ok() && result.error().code() == Errc::kInput;
    };
    CHECK(refused([](v1::KeySample& broken) { broken.Clear(); }));
    CHECK(refused([](v1::KeySample& broken) { broken.add_groups(); }));
    CHECK(refused([](v1::KeySample& broken) { broken.mutable_groups(0)->add_tuples(1); }));
    CHECK(refused([](v1::KeySample& broken) { broken.mutable_groups(0)->mutable_tuples()->Truncate(255); }));
    CHECK(refused([](v1::KeySample& broken) { broken.mutable_groups(0)->set_tuples(3, ~0ULL); }));
    CHECK(refused([](v1::KeySample& broken) { broken.mutable_groups(0)->mutable_keys()->Truncate(255); }));
    CHECK(refused([](v1::KeySample& broken) { broken.mutable_groups(0)->clear_keys(); }));
    CHECK(refused([](v1::KeySample& broken) { broken.mutable_groups(3)->set_once(1); }));
    CHECK(refused([](v1::KeySample& broken) { broken.add_loose(); }));
    CHECK(refused([](v1::KeySample& broken) { broken.mutable_loose(4)->set_tuples(~0ULL); }));
    CHECK(refused([](v1::KeySample& broken) { broken.set_window((1U << 20U) + 1); }));
}
