// SPDX-License-Identifier: Apache-2.0
//
// The shadow-copy swap (design section 8): every step, repeated, refused, and taken over by a successor of a
// daemon that died after any of them.
#include <linux/bpf.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/map_types.h"
#include "lib/bpf/map.h"
#include "lib/bpf/object.h"
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
using ask::test::sorted;
using ask::test::task_request;

void open_with_copies(Daemon& daemon, std::uint32_t copies = 2) {
    auto request = task_request("words", kInstance);
    request.set_copies(copies);
    CHECK(ask::test::open_and_join(daemon, request).copies() == copies);
}

void send(std::uint64_t seq, const std::string& key, std::int32_t value) {
    CHECK(ask::test::send_one(seq, key, value) == XDP_TX);
}

Entries swapped(Daemon& daemon, std::uint64_t epoch) {
    Entries entries;
    ask::v1::FetchChunk last;
    must(daemon.swap(kInstance, epoch, &entries, &last));
    CHECK(last.epoch() == epoch);
    CHECK(last.count() == entries.size());
    return sorted(entries);
}

grpc::StatusCode refused(const grpc::Status& status) {
    return status.error_code();
}

std::string phase(Daemon& daemon) {
    const auto status = daemon.status();
    REQUIRE(status.tasks_size() == 1);
    return std::to_string(status.tasks(0).epoch()) + " " + status.tasks(0).phase();
}

// What a daemon that died left in the task's entry of the pinned map.
void write_entry(std::uint64_t epoch, std::uint32_t phase, std::uint32_t copy) {
    auto fd = ask::bpf::open_pinned(std::string(ask::test::kPins) + "/maps/tasks");
    REQUIRE(fd.ok());
    const auto tasks = ask::bpf::Map<std::uint32_t, ask_task>::adopt(std::move(*fd), "tasks");
    REQUIRE(tasks.ok());
    for (std::uint32_t i = 0; i < tasks->max_entries(); i++) {
        auto entry = tasks->find(i);
        REQUIRE((entry.ok() && entry->has_value()));
        if ((*entry)->copies == 2) {
            (*entry)->swap = ASK_SWAP_WORD(epoch, phase);
            (*entry)->copy = copy;
            REQUIRE(tasks->set(i, **entry).ok());
            return;
        }
    }
    FAIL("no task with two copies");
}

}  // namespace

TEST_CASE("a swap gives the closed epoch's copy, traffic goes on in the other, and blanking makes room") {
    for (const char* flags :
         {"--memory pipelines", "--memory shared", "--swap-barrier rcu", "--dedupe compact"}) {
        CAPTURE(flags);
        Daemon daemon(flags);
        open_with_copies(daemon);
        send(1, "word", 5);
        send(2, "a", 1);
        CHECK(swapped(daemon, 0) == Entries{{"a", 1}, {"word", 5}});
        CHECK(phase(daemon) == "1 passed");
        send(3, "word", 7);
        CHECK(swapped(daemon, 0) == Entries{{"a", 1}, {"word", 5}});
        must(daemon.confirm(kInstance, 0));
        CHECK(phase(daemon) == "1 blank");
        send(4, "b", 2);
        CHECK(swapped(daemon, 1) == Entries{{"b", 2}, {"word", 7}});
        must(daemon.confirm(kInstance, 1));
        send(5, "c", 3);
        CHECK(fetched(daemon, 2) == Entries{{"c", 3}});
        CHECK(ask::test::counter(daemon.status(), "ack_new") == 5);
    }
}

TEST_CASE("requests that do not fit the epoch are refused and change nothing; repeated ones are harmless") {
    Daemon daemon;
    open_with_copies(daemon);
    send(1, "word", 5);
    Entries ignored;
    constexpr auto kRefused = grpc::StatusCode::FAILED_PRECONDITION;
    CHECK(refused(daemon.swap(kInstance, 1, &ignored)) == kRefused);
    CHECK(refused(daemon.confirm(kInstance, 0)) == kRefused);
    CHECK(refused(daemon.fetch(kInstance, 1, &ignored)) == kRefused);
    CHECK(phase(daemon) == "0 blank");
    CHECK(swapped(daemon, 0) == Entries{{"word", 5}});
    // Not before the copy of epoch 0 is confirmed and blank.
    CHECK(refused(daemon.swap(kInstance, 1, &ignored)) == kRefused);
    CHECK(refused(daemon.fetch(kInstance, 1, &ignored)) == kRefused);
    CHECK(refused(daemon.confirm(kInstance, 1)) == kRefused);
    must(daemon.confirm(kInstance, 0));
    must(daemon.confirm(kInstance, 0));
    CHECK(refused(daemon.swap(kInstance, 0, &ignored)) == kRefused);
    send(2, "late", 1);
    CHECK(swapped(daemon, 1) == Entries{{"late", 1}});
    must(daemon.confirm(kInstance, 0));
    CHECK(phase(daemon) == "2 passed");
    CHECK(swapped(daemon, 1) == Entries{{"late", 1}});
    CHECK(ignored.empty());
}

TEST_CASE("a task with one copy, or none, cannot swap, and says so") {
    for (const std::uint32_t copies : {0U, 1U}) {
        Daemon daemon;
        open_with_copies(daemon, copies);
        Entries ignored;
        const auto status = daemon.swap(kInstance, 0, &ignored);
        CHECK(status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
        CHECK_MESSAGE(status.error_message().find("no shadow copy") != std::string::npos,
                      status.error_message());
        CHECK(phase(daemon) == "0 blank");
    }
}

TEST_CASE("a closed task takes its swap with it") {
    Daemon daemon;
    open_with_copies(daemon);
    send(1, "word", 5);
    CHECK(swapped(daemon, 0) == Entries{{"word", 5}});
    must(daemon.close_task(kInstance));
    Entries ignored;
    CHECK(refused(daemon.swap(kInstance, 0, &ignored)) == grpc::StatusCode::NOT_FOUND);
    CHECK(refused(daemon.confirm(kInstance, 0)) == grpc::StatusCode::NOT_FOUND);
    must(daemon.open_task(task_request("words", kInstance + 1)));
    CHECK(phase(daemon) == "0 blank");
}

TEST_CASE("a successor repeats the step that its predecessor died in") {
    Daemon first;
    open_with_copies(first);
    send(1, "word", 5);
    SUBCASE("the flip was stored, not yet done") {
        CHECK(first.end(SIGKILL) == 128 + SIGKILL);
        write_entry(1, ASK_SWAP_FLIPPED, 0);
        send(2, "word", 1);
        Daemon second;
        CHECK(phase(second) == "1 passed");
        send(3, "word", 100);
        CHECK(swapped(second, 0) == Entries{{"word", 6}});
        must(second.confirm(kInstance, 0));
        CHECK(fetched(second, 1) == Entries{{"word", 100}});
    }
    SUBCASE("flipped, the barrier not yet passed") {
        CHECK(first.end(SIGKILL) == 128 + SIGKILL);
        write_entry(1, ASK_SWAP_FLIPPED, 1);
        send(2, "word", 1);
        Daemon second;
        CHECK(phase(second) == "1 passed");
        CHECK(swapped(second, 0) == Entries{{"word", 5}});
        must(second.confirm(kInstance, 0));
        CHECK(fetched(second, 1) == Entries{{"word", 1}});
    }
    SUBCASE("streamed, not confirmed") {
        CHECK(swapped(first, 0) == Entries{{"word", 5}});
        CHECK(first.end(SIGKILL) == 128 + SIGKILL);
        send(2, "word", 1);
        Daemon second;
        CHECK(phase(second) == "1 passed");
        CHECK(swapped(second, 0) == Entries{{"word", 5}});
        must(second.confirm(kInstance, 0));
        CHECK(fetched(second, 1) == Entries{{"word", 1}});
    }
    SUBCASE("confirmed, not yet blank") {
        CHECK(swapped(first, 0) == Entries{{"word", 5}});
        CHECK(first.end(SIGKILL) == 128 + SIGKILL);
        write_entry(1, ASK_SWAP_CONFIRMED, 1);
        send(2, "word", 1);
        Daemon second;
        CHECK(phase(second) == "1 blank");
        must(second.confirm(kInstance, 0));
        CHECK(swapped(second, 1) == Entries{{"word", 1}});
        must(second.confirm(kInstance, 1));
        CHECK(fetched(second, 2).empty());
    }
}

// Packets of several channels on several CPUs while the task swaps as fast as it can: what comes out of all
// epochs together is what went in.
TEST_CASE("swaps under load lose nothing and double nothing") {
    constexpr unsigned kFeeders = 3;
    constexpr std::uint64_t kPackets = 20000;
    constexpr unsigned kKeys = 50;
    for (const char* flags : {"--memory pipelines", "--memory shared", "--swap-barrier rcu"}) {
        CAPTURE(flags);
        Daemon daemon(flags);
        open_with_copies(daemon);
        std::vector<ChannelId> channels;
        for (unsigned i = 0; i < kFeeders; i++) {
            channels.push_back({ask::test::kHost1, static_cast<std::uint16_t>(49160 + i)});
            must(daemon.register_channel(channels.back(), kIncarnation));
            must(daemon.join_flow(kInstance, channels.back(), kIncarnation, kSecret));
        }
        std::atomic<unsigned> running{kFeeders};
        std::atomic<std::uint64_t> odd{0};  // packets that were not aggregated whole
        std::vector<std::thread> feeders;
        for (unsigned i = 0; i < kFeeders; i++) {
            feeders.emplace_back([&, i, feed = ask::test::SwitchFeed("p1")] {
                for (std::uint64_t seq = 1; seq <= kPackets; seq++) {
                    const std::string key = "k" + std::to_string(seq % kKeys);
                    odd += feed.send({kInstance, channels[i], kIncarnation, kSecret, seq, key, 1}) == XDP_TX
                               ? 0
                               : 1;
                }
                running--;
            });
        }
        std::map<std::string, std::int64_t> sums;
        std::uint64_t epoch = 0;
        const auto merge = [&sums](const Entries& entries) {
            for (const auto& entry : entries) {
                sums[entry.key] += entry.value;
            }
        };
        while (running > 0) {
            merge(swapped(daemon, epoch));
            must(daemon.confirm(kInstance, epoch));
            epoch++;
        }
        for (std::thread& feeder : feeders) {
            feeder.join();
        }
        merge(fetched(daemon, epoch));
        CHECK(epoch > 1);
        // Keys may meet in an aggregator: what is left of such a packet travels on and is not in a copy.
        std::int64_t total = 0;
        for (const auto& [key, sum] : sums) {
            total += sum;
        }
        CHECK(total == static_cast<std::int64_t>(kFeeders * kPackets - odd.load()));
        if (odd.load() == 0) {
            for (const auto& [key, sum] : sums) {
                CAPTURE(key);
                CHECK(sum == kFeeders * kPackets / kKeys);
            }
        }
    }
}
