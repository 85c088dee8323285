// SPDX-License-Identifier: Apache-2.0
//
// The life of channels, flows and tasks, over restarts of the daemon.
#include <linux/bpf.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"
#include "tests/netns/switchd/packet.h"
#include "tests/support/patience.h"

namespace {

using ask::ChannelId;
using ask::CheckSecret;
using ask::test::counter;
using ask::test::Daemon;
using ask::test::Entries;
using ask::test::fetched;
using ask::test::kChannel;
using ask::test::kIncarnation;
using ask::test::kInstance;
using ask::test::kSecret;
using ask::test::must;
using ask::test::OneTuple;
using ask::test::task_request;

// A task with one channel joined.
void set_up_task(Daemon& daemon) {
    ask::test::open_and_join(daemon, task_request("words", kInstance));
}

OneTuple tuple(std::uint64_t seq, const std::string& key, std::int32_t value) {
    return {kInstance, kChannel, kIncarnation, kSecret, seq, key, value};
}

}  // namespace

TEST_CASE("what the switch aggregates is fetched, and everything shows by name") {
    Daemon daemon;
    ask::v1::RegisterChannelReply registered;
    must(daemon.register_channel(kChannel, kIncarnation, &registered));
    CHECK(registered.port() == "p1");
    CHECK(registered.mark().switch_id() == 1);
    CHECK(registered.mark().incarnation() != 0);
    ask::v1::OpenTaskReply opened;
    must(daemon.open_task(task_request("words", kInstance), &opened));
    CHECK(opened.aggregators() == 1024);
    CHECK(opened.no_region_reason().empty());
    must(daemon.join_flow(kInstance, kChannel, kIncarnation, kSecret));

    CHECK(send_through_switch(tuple(1, "word", 5), "p1") == XDP_TX);
    CHECK(send_through_switch(tuple(2, "a", -7), "p1") == XDP_TX);
    CHECK(send_through_switch(tuple(2, "a", -7), "p1") == XDP_TX);
    CHECK(send_through_switch(tuple(3, "word", 37), "p1") == XDP_TX);
    CHECK(send_through_switch(tuple(4, "word", 1), "p2") == XDP_DROP);

    Entries entries;
    ask::v1::FetchChunk last;
    must(daemon.fetch(kInstance, 0, &entries, &last));
    std::ranges::sort(entries, {}, &Daemon::Entry::key);
    CHECK(entries == Entries{{"a", -7}, {"word", 42}});
    CHECK(last.count() == 2);
    CHECK(last.epoch() == 0);
    CHECK(last.mark().incarnation() == registered.mark().incarnation());
    REQUIRE(last.flows_size() == 1);
    CHECK(last.flows(0).channel().port() == kChannel.port);
    CHECK(last.flows(0).stats().tuples_switch() == 3);

    const ask::v1::SwitchStatus status = daemon.status();
    CHECK(counter(status, "ack_new") == 3);
    CHECK(counter(status, "ack_seen") == 1);
    CHECK(counter(status, "bad_port") == 1);
    REQUIRE(status.tasks_size() == 1);
    CHECK(status.tasks(0).id() == "words");
    CHECK(status.tasks(0).phase() == "blank");
    CHECK(status.tasks(0).flows() == 1);
    CHECK(status.tasks(0).region_bytes() == 32 * 1024 * 8);
    CHECK(status.tasks(0).stats().tuples_switch() == 3);
    CHECK(status.sram_used_bytes() > status.tasks(0).region_bytes());
    REQUIRE(status.ports_size() == 2);
    CHECK(status.ports(0).mode() == "native");
    CHECK(status.ports(0).attached());
    REQUIRE(status.channels_size() == 1);
    CHECK(status.channels(0).port() == "p1");
}

// Where a route has several next hops, the other end has chosen one.
TEST_CASE("a channel comes in by every port that its host's route leads through, as routes change") {
    constexpr ChannelId kFar{0xc6123202, 49152};  // 198.18.50.2
    const std::string prefix = "198.18.50.0/24";
    const std::string by_p1 = " nexthop via 198.18.1.2 dev p1";
    const std::string by_p2 = " nexthop via 198.18.2.2 dev p2";
    Daemon daemon;
    ask::test::must_run("ip route replace " + prefix + by_p1 + by_p2);
    must(daemon.register_channel(kFar, kIncarnation));
    must(daemon.open_task(task_request("words", kInstance)));
    must(daemon.join_flow(kInstance, kFar, kIncarnation, kSecret));
    OneTuple far = tuple(1, "word", 1);
    far.channel = kFar;
    const auto sent_by = [&](const std::string& port) {
        const std::uint32_t verdict = send_through_switch(far, port);
        far.seq++;
        return verdict;
    };
    CHECK(sent_by("p1") == XDP_TX);
    CHECK(sent_by("p2") == XDP_TX);

    // Each is followed at the daemon's next look at itself. What is refused meanwhile, its sender repeats.
    const auto deadline = std::chrono::steady_clock::now() + ask::test::patience(std::chrono::seconds(10));
    const auto await = [&](const std::string& port, std::uint32_t verdict) {
        while (sent_by(port) != verdict) {
            REQUIRE(std::chrono::steady_clock::now() < deadline);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    };
    ask::test::must_run("ip route replace " + prefix + by_p2);
    await("p1", XDP_DROP);
    CHECK(sent_by("p2") == XDP_TX);
    CHECK(daemon.status().channels(0).port() == "p2");
    ask::test::must_run("ip route replace " + prefix + by_p1 + by_p2);
    await("p1", XDP_TX);
    CHECK(sent_by("p2") == XDP_TX);

    // Changed while no daemon ran.
    CHECK(daemon.end(SIGKILL) == 128 + SIGKILL);
    ask::test::must_run("ip route replace " + prefix + by_p1);
    Daemon second;
    await("p2", XDP_DROP);
    CHECK(sent_by("p1") == XDP_TX);
    ask::test::must_run("ip route del " + prefix);
}

// The kernel takes routes of IPv4 away by itself then, and says nothing of routes.
TEST_CASE("a channel comes in by another port as soon as the one that its host's route led through is down") {
    constexpr ChannelId kFar{0xc6123202, 49152};  // 198.18.50.2
    ask::test::must_run(
        "ip link add w1 type veth peer name w2 && ip link set w2 up && ip link set w1 up\n"
        "ip address add 198.18.9.1/24 dev w1\n"
        "ip route add 198.18.50.0/24 via 198.18.9.2 dev w1 metric 10\n"
        "ip route add 198.18.50.0/24 via 198.18.2.2 dev p2 metric 20");
    Daemon daemon("", "p1,p2,w1");
    must(daemon.register_channel(kFar, kIncarnation));
    const auto port = [&daemon] { return daemon.status().channels(0).port(); };
    CHECK(port() == "w1");
    // Behind its start the daemon looks at routes once more, 900 ms later at the next of its turns, one a
    // second: that look would find it, not the port's.
    constexpr std::chrono::milliseconds kLooked(2200);
    std::this_thread::sleep_for(kLooked);  // until that look is over
    ask::test::must_run("ip link set w1 down");
    const auto deadline = std::chrono::steady_clock::now() + ask::test::patience(std::chrono::seconds(10));
    while (port() != "p2") {
        REQUIRE_MESSAGE(std::chrono::steady_clock::now() < deadline, daemon.log());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // between two looks
    }
    ask::test::must_run("ip link del w1; ip route del 198.18.50.0/24");
}

TEST_CASE("bpftool shows a task's region and meta by the names of their fields") {
    Daemon daemon;
    set_up_task(daemon);
    CHECK(send_through_switch(tuple(1, "key", 5), "p1") == XDP_TX);
    const std::string dump =
        std::string(ASK_TEST_BPFTOOL) + " map dump pinned " + ask::test::kPins + "/tasks/by-name/@/words/";
    const auto region = nlohmann::json::parse(ask::test::must_run(dump + "region"));
    const auto full = std::ranges::find_if(
        region, [](const auto& entry) { return entry.at("value").at("kpart") == "key"; });
    REQUIRE_MESSAGE(full != region.end(), region.dump().substr(0, 400));
    CHECK(full->at("value").at("vpart") == 5);
    const auto meta = nlohmann::json::parse(ask::test::must_run(dump + "meta"));
    CHECK(meta.at(0).at("value").at("region_aggregators") == 1024);
    CHECK(meta.at(0).at("value").contains("receiver"));
}

TEST_CASE("killed and started again, the daemon adopts everything while traffic goes on") {
    std::uint32_t incarnation = 0;
    Daemon first;
    {
        set_up_task(first);
        incarnation = first.status().mark().incarnation();
        CHECK(send_through_switch(tuple(1, "word", 1), "p1") == XDP_TX);
        CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    }
    CHECK(send_through_switch(tuple(2, "word", 10), "p1") == XDP_TX);
    Daemon second;
    CHECK_MESSAGE(second.log().find("adopted 1 tasks, 1 channels, 1 flows") != std::string::npos,
                  second.log());
    CHECK(send_through_switch(tuple(2, "word", 10), "p1") == XDP_TX);
    CHECK(send_through_switch(tuple(3, "word", 100), "p1") == XDP_TX);
    CHECK(fetched(second) == Entries{{"word", 111}});
    const ask::v1::SwitchStatus status = second.status();
    CHECK(status.mark().incarnation() == incarnation);
    CHECK(counter(status, "ack_new") == 3);
    CHECK(counter(status, "ack_seen") == 1);
    REQUIRE(status.tasks_size() == 1);
    CHECK(status.tasks(0).receiver() == "198.18.2.2:4791");
    CHECK(status.sram_used_bytes() == first.status().sram_used_bytes());
}

TEST_CASE("repeated calls change nothing, before and after a restart") {
    const auto repeat = [](Daemon& daemon) {
        for (int i = 0; i < 2; i++) {
            set_up_task(daemon);
        }
        const ask::v1::SwitchStatus status = daemon.status();
        CHECK(status.tasks_size() == 1);
        CHECK(status.channels_size() == 1);
        CHECK(status.tasks(0).flows() == 1);
        CHECK(status.tasks(0).stats().tuples_switch() == 1);
    };
    Daemon first;
    set_up_task(first);
    CHECK(send_through_switch(tuple(1, "word", 5), "p1") == XDP_TX);
    repeat(first);
    CHECK(first.end(SIGTERM) == 0);
    Daemon second;
    repeat(second);
    CHECK(fetched(second) == Entries{{"word", 5}});
    for (int i = 0; i < 2; i++) {
        must(second.close_task(kInstance));
        must(second.unregister_channel(kChannel, kIncarnation));
    }
    CHECK(second.status().tasks_size() == 0);
    CHECK(second.status().channels_size() == 0);
    CHECK(second.status().sram_used_bytes() == 0);
}

TEST_CASE("a closed task's packets are dropped, its id and memory free again and blank") {
    Daemon daemon;
    set_up_task(daemon);
    CHECK(send_through_switch(tuple(1, "word", 5), "p1") == XDP_TX);
    must(daemon.close_task(kInstance));
    CHECK(ask::test::pinned_paths().find("words") == std::string::npos);
    CHECK(send_through_switch(tuple(2, "word", 5), "p1") == XDP_DROP);
    CHECK(counter(daemon.status(), "bad_task") == 1);
    Entries entries;
    CHECK(daemon.fetch(kInstance, 0, &entries).error_code() == grpc::StatusCode::NOT_FOUND);

    must(daemon.open_task(task_request("words", kInstance + 1)));
    must(daemon.join_flow(kInstance + 1, kChannel, kIncarnation, kSecret));
    must(daemon.fetch(kInstance + 1, 0, &entries));
    CHECK(entries.empty());
    CHECK(counter(daemon.status(), "abort_state") == 0);
}

TEST_CASE("a new incarnation of a channel has seen nothing, and the old one is nobody's") {
    Daemon daemon;
    set_up_task(daemon);
    CHECK(send_through_switch(tuple(1, "word", 1), "p1") == XDP_TX);
    must(daemon.register_channel(kChannel, kIncarnation + 1, nullptr, kIncarnation));
    CHECK(send_through_switch(tuple(2, "word", 1), "p1") == XDP_DROP);
    CHECK(counter(daemon.status(), "bad_incarnation") == 1);
    // What it has sent in this task stays, and is not forgotten for another flow.
    CHECK(daemon.join_flow(kInstance, kChannel, kIncarnation + 1, kSecret).error_code() ==
          grpc::StatusCode::ALREADY_EXISTS);
    CHECK(fetched(daemon) == Entries{{"word", 1}});
    must(daemon.open_task(task_request("again", kInstance + 1)));
    must(daemon.join_flow(kInstance + 1, kChannel, kIncarnation + 1, kSecret));
    OneTuple fresh = tuple(1, "word", 10);
    fresh.instance++;
    fresh.incarnation++;
    CHECK(send_through_switch(fresh, "p1") == XDP_TX);
    Entries entries;
    must(daemon.fetch(kInstance + 1, 0, &entries));
    CHECK(entries == Entries{{"word", 10}});
    // The old incarnation's owner, late.
    must(daemon.unregister_channel(kChannel, kIncarnation));
    CHECK(daemon.status().channels_size() == 1);
}

// The simulator runs a model of the daemon, so that it could not find this.
TEST_CASE("a registration of a channel's past that comes late overwrites nothing") {
    Daemon daemon;
    const auto refused_with = [&](std::uint32_t incarnation, std::uint32_t replaces) {
        const auto status = daemon.register_channel(kChannel, incarnation, nullptr, replaces);
        REQUIRE(status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
        ask::v1::RegisterChannelRefusal refusal;
        REQUIRE(refusal.ParseFromString(status.error_details()));
        return refusal.incarnation();
    };
    must(daemon.register_channel(kChannel, 1));
    must(daemon.register_channel(kChannel, 2, nullptr, 1));
    // Again, and late.
    must(daemon.register_channel(kChannel, 2, nullptr, 1));
    CHECK(refused_with(1, 0) == 2);
    must(daemon.register_channel(kChannel, 3, nullptr, 2));
    CHECK(refused_with(2, 1) == 3);
    CHECK(daemon.status().channels(0).incarnation() == 3);
    must(daemon.unregister_channel(kChannel, 3));
    CHECK(refused_with(3, 2) == 0);
    CHECK(daemon.status().channels_size() == 0);
}

// With room for one channel the second one has the first one's place in every array.
TEST_CASE("a channel in another's former place has seen nothing") {
    for (const char* flags : {"--dedupe tagged", "--dedupe compact"}) {
        CAPTURE(flags);
        Daemon daemon(std::string("--max-channels 1 ") + flags);
        set_up_task(daemon);
        for (std::uint64_t seq = 1; seq <= 3; seq++) {
            CHECK(send_through_switch(tuple(seq, "word", 1), "p1") == XDP_TX);
        }
        must(daemon.unregister_channel(kChannel, kIncarnation));
        OneTuple other = tuple(1, "word", 10);
        other.channel.port++;
        must(daemon.register_channel(other.channel, kIncarnation));
        must(daemon.join_flow(kInstance, other.channel, kIncarnation, kSecret));
        for (; other.seq <= 3; other.seq++) {
            CHECK(send_through_switch(other, "p1") == XDP_TX);
        }
        CHECK(fetched(daemon) == Entries{{"word", 33}});
        CHECK(counter(daemon.status(), "ack_seen") == 0);
    }
}

TEST_CASE("both memory ways and both dedupes, one copy of two: the same answer") {
    for (const char* flags : {"--memory shared", "--memory pipelines", "--dedupe compact"}) {
        CAPTURE(flags);
        Daemon daemon(flags);
        must(daemon.register_channel(kChannel, kIncarnation));
        auto request = task_request("words", kInstance);
        request.set_copies(2);
        must(daemon.open_task(request));
        must(daemon.join_flow(kInstance, kChannel, kIncarnation, kSecret));
        CHECK(send_through_switch(tuple(1, "word", 5), "p1") == XDP_TX);
        CHECK(send_through_switch(tuple(2, "word", 6), "p1") == XDP_TX);
        CHECK(fetched(daemon) == Entries{{"word", 11}});
        CHECK(daemon.status().tasks(0).aggregators() == 1024);
        CHECK(daemon.status().tasks(0).copies() == 2);
    }
}

TEST_CASE("a lease that nobody renews ends the task; a renewed one goes on") {
    // Long enough for the one that is renewed, though nobody renews it for a second or two.
    const auto lease = ask::test::patience(std::chrono::seconds(4));
    Daemon daemon("--lease-seconds " + std::to_string(lease.count()));
    set_up_task(daemon);
    must(daemon.open_task(task_request("kept", kInstance + 1)));
    const auto deadline = std::chrono::steady_clock::now() + 20 * lease;
    while (daemon.renew({kInstance + 1}).unknown_size() == 0 && daemon.status().tasks_size() == 2) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the next renewal
    }
    REQUIRE(daemon.status().tasks_size() == 1);
    CHECK(daemon.status().tasks(0).id() == "kept");
    const ask::v1::RenewTasksReply renewed = daemon.renew({kInstance, kInstance + 1});
    REQUIRE(renewed.unknown_size() == 1);
    CHECK(renewed.unknown(0) == kInstance);
    CHECK_MESSAGE(
        daemon.log().find("task words: its receiver 198.18.2.2:4791 has not renewed it") != std::string::npos,
        daemon.log());
}

TEST_CASE("a task left half open or half closed by a predecessor is undone") {
    Daemon first;
    set_up_task(first);
    must(first.open_task(task_request("whole", kInstance + 1)));
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    ask::test::must_run(std::string("rm ") + ask::test::kPins + "/tasks/0123456789abcdef/meta; mkdir " +
                        ask::test::kPins + "/tasks/empty");
    Daemon second;
    const ask::v1::SwitchStatus status = second.status();
    REQUIRE(status.tasks_size() == 1);
    CHECK(status.tasks(0).id() == "whole");
    const std::string pins = ask::test::pinned_paths();
    CHECK(pins.find("words") == std::string::npos);
    CHECK(pins.find("tasks/empty") == std::string::npos);
    CHECK(send_through_switch(tuple(1, "word", 1), "p1") == XDP_DROP);
    must(second.open_task(task_request("words", kInstance)));
    CHECK(fetched(second).empty());
}

// Its first packets may be on their way: what they find has to be there until the task's end.
TEST_CASE("a task that began without a region stays without, whatever becomes free") {
    Daemon first("--sram-kib 12288");
    auto large = task_request("large", kInstance + 1);
    large.set_aggregators(32768);
    must(first.open_task(large));
    auto request = task_request("words", kInstance);
    request.set_aggregators(32768);
    CHECK(ask::test::open_and_join(first, request).copies() == 0);
    CHECK(send_through_switch(tuple(1, "word", 1), "p1") != XDP_TX);
    must(first.close_task(kInstance + 1));
    const auto stays_without = [&](Daemon& daemon, std::uint64_t seq) {
        CHECK(ask::test::open_and_join(daemon, request).copies() == 0);
        REQUIRE(daemon.status().tasks_size() == 1);
        CHECK(daemon.status().tasks(0).aggregators() == 0);
        CHECK(send_through_switch(tuple(seq, "word", 1), "p1") != XDP_TX);
        CHECK(fetched(daemon).empty());
    };
    stays_without(first, 2);
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    Daemon second("--sram-kib 12288");
    stays_without(second, 3);
}

// Everything but the pin is as it should be, also its size: the other task's tuples would be taken for this
// one's.
TEST_CASE("a region or heat that the switch does not use for the task is not adopted") {
    std::string pin;
    SUBCASE("region") {
        pin = "region";
    }
    SUBCASE("heat") {
        pin = "heat";
    }
    Daemon first;
    auto request = task_request("words", kInstance);
    auto other = task_request("other", kInstance + 1);
    request.set_policy(ask::v1::POLICY_REPLACE);
    other.set_policy(ask::v1::POLICY_REPLACE);
    ask::test::open_and_join(first, request);
    must(first.open_task(other));
    must(first.open_task(task_request("whole", kInstance + 2)));
    CHECK(send_through_switch(tuple(1, "word", 1), "p1") == XDP_TX);
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    ask::test::must_run(std::string("cd ") + ask::test::kPins +
                        "/tasks; one=0123456789abcdef other=0123456789abcdf0; mv $one/" + pin +
                        " $one/aside; mv $other/" + pin + " $one/" + pin + "; mv $one/aside $other/" + pin);
    Daemon second;
    REQUIRE_MESSAGE(second.status().tasks_size() == 1, second.log());
    CHECK(second.status().tasks(0).id() == "whole");
    CHECK_MESSAGE(second.log().find("task words: its " + pin + " is pinned, but is not") != std::string::npos,
                  second.log());
    const std::string pins = ask::test::pinned_paths();
    CHECK(pins.find("words") == std::string::npos);
    CHECK(pins.find("other") == std::string::npos);
    must(second.open_task(request));
    CHECK(fetched(second).empty());
}

TEST_CASE("a task whose place is another instance's is not adopted") {
    Daemon first;
    set_up_task(first);
    must(first.open_task(task_request("whole", kInstance + 1)));
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    // The meta of one task under the name of the other, and the other way round.
    ask::test::must_run(std::string("cd ") + ask::test::kPins +
                        "/tasks; one=0123456789abcdef other=0123456789abcdf0; mv $one aside; mv $other $one; "
                        "mv aside $other");
    Daemon second;
    CHECK(second.status().tasks_size() == 0);
    CHECK(ask::test::pinned_paths().find("tasks/") == std::string::npos);
    CHECK(send_through_switch(tuple(1, "word", 1), "p1") == XDP_DROP);
}
