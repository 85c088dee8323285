// SPDX-License-Identifier: Apache-2.0
//
// The shadow-copy swap (design section 8): every step, repeated, refused, and taken over by a successor of a
// daemon that died after any of them.
#include <linux/bpf.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
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
#include "tests/support/patience.h"

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

// The maps of the task under way, as a program has them, and a CPU that one of them runs on.
class RunningProgram {
 public:
    RunningProgram()
        : tasks_(view<ask_task>("/maps/tasks")),
          region_(view<ask_aggregator>("/tasks/by-name/@/words/region")),
          presence_(view<ask_presence>("/maps/presence")) {}

    void come_in() const { word().fetch_add(ASK_PRESENCE_ENTER); }
    void come_out() const { word().fetch_add(ASK_PRESENCE_LEAVE_LAST); }
    // A tuple in each place of the short slots of the first copy: more than a stream takes in unread.
    void fill_first_copy(std::size_t aggregators) const {
        const std::span<ask_aggregator> places = region_.span().first(16 * aggregators);
        for (std::size_t i = 0; i < places.size(); i++) {
            ask_aggregator tuple{};
            std::size_t digits = i;
            for (char& byte : tuple.kpart) {
                byte = static_cast<char>('0' + digits % 64);
                digits /= 64;
            }
            tuple.vpart = INT32_MAX;
            places[i] = tuple;
        }
    }
    // Waits until the epoch is closed, then writes a tuple to its copy. True: nobody said meanwhile that no
    // program does so any more.
    bool writes_late(std::uint64_t epoch, std::chrono::steady_clock::time_point deadline) const {
        const auto flipped = [&] { return swap().load() == ASK_SWAP_WORD(epoch + 1, ASK_SWAP_FLIPPED); };
        while (!flipped() && swap().load() <= ASK_SWAP_WORD(epoch + 1, ASK_SWAP_FLIPPED) &&
               std::chrono::steady_clock::now() < deadline) {
        }
        // So late that one who does not wait has gone on, and before CopyBarrier::kPatience is over.
        const auto late = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
        while (flipped() && std::chrono::steady_clock::now() < late) {
        }
        const std::size_t copy_words = 32 * std::size_t{512};
        ask_aggregator& place = region_.span()[ASK_EPOCH_COPY(epoch) * copy_words];
        ask_aggregator tuple{};
        std::memcpy(&tuple, "late", 4);
        tuple.vpart = 1;
        place = tuple;
        return flipped();
    }

 private:
    template <typename V>
    static ask::bpf::ArrayView<V> view(const char* pin) {
        auto fd = ask::bpf::open_pinned(std::string(ask::test::kPins) + pin);
        REQUIRE(fd.ok());
        const auto info = ask::bpf::map_info(fd->get());
        REQUIRE(info.ok());
        auto view = ask::bpf::ArrayView<V>::map(fd->get(), info->max_entries);
        REQUIRE(view.ok());
        return std::move(*view);
    }
    [[nodiscard]] std::atomic_ref<__u64> word() const { return std::atomic_ref(presence_.span()[0].word); }
    [[nodiscard]] std::atomic_ref<__u64> swap() const {
        for (ask_task& task : tasks_.span()) {
            if (task.copies == 2) {
                return std::atomic_ref(task.swap);
            }
        }
        FAIL("no task with two copies");
        return std::atomic_ref(tasks_.span()[0].swap);
    }

    ask::bpf::ArrayView<ask_task> tasks_;
    ask::bpf::ArrayView<ask_aggregator> region_;
    ask::bpf::ArrayView<ask_presence> presence_;
};

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

// A program is on a CPU that does not get on, and writes to the copy that was in use when it came in. It has
// until the daemon says that it waits no longer; a test that comes too late itself tries again.
TEST_CASE("what a program still writes while a flip waits for it is in the copy that is read") {
    constexpr std::uint64_t kTries = 20;
    for (const char* flags : {"--swap-barrier auto", "--swap-barrier rcu"}) {
        CAPTURE(flags);
        Daemon daemon(std::string("--memory shared ") + flags);
        open_with_copies(daemon);
        const RunningProgram program;
        const auto deadline =
            std::chrono::steady_clock::now() + ask::test::patience(std::chrono::seconds(20));
        bool in_time = false;
        for (std::uint64_t epoch = 0; !in_time; epoch++) {
            REQUIRE_MESSAGE(epoch < kTries, "no swap waited for a program");
            program.come_in();
            Entries entries;
            std::thread swapping([&] { entries = swapped(daemon, epoch); });
            in_time = program.writes_late(epoch, deadline);
            swapping.join();
            program.come_out();
            CHECK((!in_time || entries == Entries{{"late", 1}}));
            must(daemon.confirm(kInstance, epoch));
        }
    }
}

// What had not been sent yet when the copy was confirmed is blank. Its reader must not take the rest for all
// of it.
TEST_CASE("a copy that is confirmed while it is read does not come to an end") {
    constexpr std::uint32_t kAggregators = 32768;
    Daemon daemon("--memory shared");
    auto request = task_request("words", kInstance);
    request.set_copies(2);
    request.set_aggregators(kAggregators);
    CHECK(ask::test::open_and_join(daemon, request).aggregators() == kAggregators);
    RunningProgram().fill_first_copy(kAggregators / 2);
    ask::v1::FetchCopyRequest swap;
    swap.set_instance(kInstance);
    swap.set_nonce(daemon.nonce_of(kInstance));
    swap.set_close(true);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + ask::test::patience(std::chrono::seconds(20)));
    const auto reader = daemon.stub_at(ask::test::kHost2).FetchCopy(&context, swap);
    ask::v1::FetchChunk chunk;
    REQUIRE(reader->Read(&chunk));
    must(daemon.confirm(kInstance, 0));
    bool ended = chunk.last();
    while (reader->Read(&chunk)) {
        ended = ended || chunk.last();
    }
    CHECK_FALSE(ended);
    CHECK(reader->Finish().error_code() == grpc::StatusCode::ABORTED);
    CHECK(swapped(daemon, 1).empty());
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
        std::atomic<std::uint64_t> swaps{0};
        std::vector<std::thread> feeders;
        for (unsigned i = 0; i < kFeeders; i++) {
            feeders.emplace_back([&, i, feed = ask::test::SwitchFeed("p1")] {
                for (std::uint64_t seq = 1; seq <= kPackets; seq++) {
                    // However long the first swaps take: there are packets before them and after them.
                    while (seq == kPackets / 2 && swaps < 2) {
                        std::this_thread::yield();
                    }
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
            swaps = epoch;
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
