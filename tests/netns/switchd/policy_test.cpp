// SPDX-License-Identifier: Apache-2.0
//
// Tasks that replace cold keys: what they get, what a successor finds, what comes back.
#include <linux/bpf.h>

#include <algorithm>
#include <csignal>

#include <doctest/doctest.h>

#include "lib/tuples/sram.h"
#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"
#include "tests/netns/switchd/packet.h"

namespace {

using ask::ChannelId;
using ask::CheckSecret;
using ask::test::Daemon;
using ask::test::Entries;
using ask::test::fetched;
using ask::test::kChannel;
using ask::test::kIncarnation;
using ask::test::kInstance;
using ask::test::kSecret;
using ask::test::must;
using ask::test::OneTuple;
using ask::test::send_one;

ask::v1::OpenTaskRequest request_with(ask::v1::Policy policy) {
    auto request = ask::test::task_request("words", kInstance);
    request.set_aggregators(1);
    request.set_policy(policy);
    return request;
}

// A task with one channel joined; its policy in force.
ask::v1::Policy set_up_task(Daemon& daemon, ask::v1::Policy policy) {
    return ask::test::open_and_join(daemon, request_with(policy)).policy();
}

// "own" is taken, "one" cools it, "new" takes its place: seqs 1 to 3.
void evict_one() {
    CHECK(send_one(1, "own", 5) == XDP_TX);
    CHECK(send_one(2, "one", 1) != XDP_TX);
    CHECK(send_one(3, "new", 7) != XDP_TX);
}

// Of these a kernel lists all entries, which may take a grace period each.
constexpr const char* kSmallTables = "--max-flows 8 --max-tasks 4";

void check_no_inner_maps() {
    const std::string dump = ask::test::must_run(std::string("for map in ") + ask::test::kPins +
                                                 "/maps/{regions*,heats,carried}; do " + ASK_TEST_BPFTOOL +
                                                 " -j map dump pinned $map; done");
    CHECK_MESSAGE(dump.find("inner_map_id") == std::string::npos, dump.substr(0, 400));
}

}  // namespace

TEST_CASE("the policy asked for is in force and shows; without a wish the switch chooses") {
    for (const char* memory : {"pipelines", "shared"}) {
        CAPTURE(std::string(memory));
        Daemon daemon(std::string("--memory ") + memory);
        must(daemon.register_channel(kChannel, kIncarnation));
        for (const auto policy :
             {ask::v1::POLICY_FIRST_COME, ask::v1::POLICY_REPLACE, ask::v1::POLICY_UNSPECIFIED}) {
            const bool replaces =
                policy == ask::v1::POLICY_REPLACE ||
                (policy == ask::v1::POLICY_UNSPECIFIED && std::string(memory) == "pipelines");
            const auto in_force = replaces ? ask::v1::POLICY_REPLACE : ask::v1::POLICY_FIRST_COME;
            ask::v1::OpenTaskReply reply;
            must(daemon.open_task(request_with(policy), &reply));
            CHECK(reply.policy() == in_force);
            must(daemon.open_task(request_with(policy), &reply));
            CHECK(reply.policy() == in_force);
            CHECK(daemon.status().tasks(0).policy() == in_force);
            const bool pinned =
                ask::test::pinned_paths().find("tasks/0123456789abcdef/heat") != std::string::npos;
            CHECK(pinned == replaces);
            must(daemon.close_task(kInstance));
        }
        auto request = request_with(ask::v1::POLICY_REPLACE);
        request.set_copies(0);
        ask::v1::OpenTaskReply reply;
        must(daemon.open_task(request, &reply));
        CHECK(reply.policy() == ask::v1::POLICY_FIRST_COME);
    }
}

TEST_CASE(
    "killed and started again, the daemon adopts a task that replaces; retransmissions go on as before") {
    {
        Daemon first;
        CHECK(set_up_task(first, ask::v1::POLICY_REPLACE) == ask::v1::POLICY_REPLACE);
        evict_one();
        CHECK(first.end(SIGKILL) == 128 + SIGKILL);
        CHECK(send_one(3, "new", 7) != XDP_TX);
        Daemon second;
        const ask::v1::SwitchStatus status = second.status();
        REQUIRE(status.tasks_size() == 1);
        CHECK(status.tasks(0).policy() == ask::v1::POLICY_REPLACE);
        CHECK(status.tasks(0).flows() == 1);
        CHECK(status.tasks(0).stats().tuples_evicted() == 1);
        CHECK(status.tasks(0).stats().tuples_switch() == 2);
        CHECK(status.tasks(0).stats().tuples_collision() == 1);
        CHECK(send_one(3, "new", 7) != XDP_TX);
        CHECK(ask::test::counter(status, "fwd_seen") + ask::test::counter(status, "up_no_route") >= 1);
        CHECK(fetched(second) == Entries{{"new", 7}});
        CHECK(ask::test::counter(second.status(), "abort_state") == 0);
    }
}

TEST_CASE("heats and what flows carry are accounted, and come back blank") {
    Daemon daemon(kSmallTables);
    const std::uint64_t idle = daemon.status().sram_used_bytes();
    const ask::Geometry geometry{};
    for (std::uint64_t round = 0; round < 3; ++round) {
        set_up_task(daemon, ask::v1::POLICY_REPLACE);
        const ask::v1::SwitchStatus status = daemon.status();
        CHECK(status.tasks(0).region_bytes() ==
              ask::region_bytes(geometry, 1) + ask::heat_bytes(geometry, 1));
        CHECK(status.sram_used_bytes() >
              idle + status.tasks(0).region_bytes() + ask::carried_bytes(geometry));
        evict_one();
        must(daemon.close_task(kInstance));
        must(daemon.unregister_channel(kChannel, kIncarnation));
        CHECK(daemon.status().sram_used_bytes() == idle);
        CHECK(ask::test::pinned_paths().find("words") == std::string::npos);
        check_no_inner_maps();
    }
}

TEST_CASE("what a predecessor left of a task that replaces is taken back") {
    Daemon first(kSmallTables);
    set_up_task(first, ask::v1::POLICY_REPLACE);
    evict_one();
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    ask::test::must_run(std::string("rm ") + ask::test::kPins + "/tasks/0123456789abcdef/meta");
    Daemon second(kSmallTables);
    CHECK(second.status().tasks_size() == 0);
    check_no_inner_maps();
    must(second.open_task(request_with(ask::v1::POLICY_REPLACE)));
    must(second.join_flow(kInstance, kChannel, kIncarnation, kSecret));
    CHECK(send_one(4, "own", 1) == XDP_TX);
    CHECK(fetched(second) == Entries{{"own", 1}});
}
