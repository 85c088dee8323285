// SPDX-License-Identifier: Apache-2.0
//
// The swapper against a switch that is scripted: what has to be right whatever the switch's daemon does.
#include "lib/control/receive/swapper.h"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/result_table.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr RegionId kSwapped{.instance = 77, .nonce = 7700};
constexpr std::uint64_t kSwapAfter = 10;  // tuples

// Only what the swapper calls does anything.
class SteppedSwitch final : public SwitchPort {
 public:
    using Fetch = std::function<Result<FetchedCopy>(unsigned call, CallCancel* cancel)>;
    using Confirm = std::function<Result<>(unsigned call)>;
    SteppedSwitch(Fetch fetch, Confirm confirm) : fetch_(std::move(fetch)), confirm_(std::move(confirm)) {}

    [[nodiscard]] const std::string& address() const override { return address_; }
    Result<v1::SwitchInfo> info(milliseconds /*wait*/, CallCancel* /*cancel*/) override { return none(); }
    Result<v1::SwitchStatus> status(milliseconds /*wait*/) override { return none(); }
    Result<v1::OpenTaskReply> open_task(const v1::OpenTaskRequest& /*request*/, milliseconds /*wait*/,
                                        CallCancel* /*cancel*/) override {
        return none();
    }
    Result<> close_task(std::uint64_t /*instance*/, milliseconds /*wait*/, CallCancel* /*cancel*/) override {
        return none();
    }
    Result<Joined> join_flow(const v1::JoinFlowRequest& /*request*/, milliseconds /*wait*/) override {
        return none();
    }
    Registered try_register(const v1::RegisterChannelRequest& /*request*/, milliseconds /*wait*/,
                            CallCancel* /*cancel*/) override {
        return {{}, none(), {}};
    }
    Result<> unregister_channel(ChannelId /*channel*/, std::uint32_t /*incarnation*/, milliseconds /*wait*/,
                                CallCancel* /*cancel*/) override {
        return none();
    }
    Result<v1::RenewTasksReply> renew_tasks(const std::vector<std::uint64_t>& /*instances*/,
                                            milliseconds /*wait*/) override {
        return none();
    }
    Result<CopyEnd> stream_copy(const FetchOrder& order, const TakeEntries& take,
                                CallCancel* cancel) override {
        CHECK(order.region == kSwapped);
        orders.push_back(order);
        auto copy = fetch_(static_cast<unsigned>(orders.size()), cancel);
        ASK_PASS(copy);
        for (const std::string& entries : copy->chunks) {
            ASK_PASS(take(entries));
        }
        return CopyEnd(*std::move(copy));
    }
    Result<> confirm_copy(const RegionId& region, std::uint64_t epoch, milliseconds /*wait*/,
                          CallCancel* /*cancel*/) override {
        CHECK(region == kSwapped);
        confirmed.push_back(epoch);
        return confirm_(static_cast<unsigned>(confirmed.size()));
    }

    // The swapper's until it has ended.
    std::vector<FetchOrder> orders;
    std::vector<std::uint64_t> confirmed;

 private:
    static Error none() { return {Errc::kUnsupported, "not for a swapper"}; }

    const std::string address_ = "198.18.1.1:4792";
    Fetch fetch_;
    Confirm confirm_;
};

Result<FetchedCopy> copy_of(const std::string& key, std::int64_t value) {
    FetchedCopy copy;
    append_entry(copy.chunks.emplace_back(), key, value);
    copy.count = 1;
    return copy;
}

struct Blocks {
    std::span<const std::byte> slots;
    std::span<const std::byte> keys;
};

// Says where its table is.
class KnownMemory final : public TableMemory {
 public:
    explicit KnownMemory(std::shared_ptr<Blocks> blocks) : blocks_(std::move(blocks)) {}
    HashSeed draw_seed() override { return heap_->draw_seed(); }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        auto block = heap_->allocate_slots(bytes);
        blocks_->slots = block.ok() ? *block : std::span<std::byte>();
        return block;
    }
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        auto block = heap_->grow_keys(bytes);
        blocks_->keys = block.ok() ? *block : std::span<std::byte>();
        return block;
    }

 private:
    std::shared_ptr<Blocks> blocks_;
    std::unique_ptr<TableMemory> heap_ = make_heap_memory();
};

ResultTable empty_table(const std::shared_ptr<Blocks>& blocks) {
    auto table = ResultTable::create(std::make_unique<KnownMemory>(blocks), Op::kSum);
    REQUIRE(table.ok());
    return std::move(*table);
}

std::map<std::string, std::int64_t> sums_in(ResultTable& table, const Blocks& blocks) {
    REQUIRE(table.finish().ok());
    const auto view = TableView::open(blocks.slots, blocks.keys);
    REQUIRE(view.ok());
    std::map<std::string, std::int64_t> sums;
    const auto read =
        view->each([&](std::string_view key, std::int64_t value) { sums[std::string(key)] = value; });
    REQUIRE(read.ok());
    return sums;
}

struct Bench {
    explicit Bench(std::shared_ptr<SteppedSwitch> scripted)
        : at(std::move(scripted)),
          swapper(std::make_unique<Swapper>(Swapper::Options{.id = "t",
                                                             .region = kSwapped,
                                                             .mark = {},
                                                             .client = at,
                                                             .standstill = milliseconds(10000),
                                                             .settings = {.tuples = kSwapAfter},
                                                             .places = 1024,
                                                             .arrivals = arrivals,
                                                             .mailbox = mailbox},
                                            empty_table(blocks))) {}
    // As many tuples as make a swap due.
    void arrive() const {
        RxVerdict verdict;
        verdict.items = kSwapAfter;
        arrivals->note(verdict);
    }
    void await_swaps(std::uint64_t count) const {
        const auto until = Clock::now() + kPatience;
        while (swapper->swaps() < count && Clock::now() < until) {
            std::this_thread::sleep_for(milliseconds(1));
        }
        REQUIRE(swapper->swaps() == count);
    }

    std::shared_ptr<SteppedSwitch> at;
    std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>();
    std::shared_ptr<TaskArrivals> arrivals = std::make_shared<TaskArrivals>();
    std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
    std::unique_ptr<Swapper> swapper;
};

}  // namespace

TEST_CASE("a copy is merged once, though fetching and confirming it took several tries") {
    const Error away(Errc::kUnavailable, "away");
    const auto scripted = std::make_shared<SteppedSwitch>(
        [&](unsigned call, CallCancel* /*cancel*/) -> Result<FetchedCopy> {
            return call == 1 ? Result<FetchedCopy>(away) : copy_of("key", 5);
        },
        [&](unsigned call) { return call == 1 ? Result<>(away) : Result<>(); });
    const Bench bench(scripted);
    bench.arrive();
    bench.await_swaps(1);
    bench.arrive();
    bench.await_swaps(2);
    bench.swapper->finish(Clock::now() + kPatience);
    await(*bench.mailbox, SessionEvent::Kind::kChanged);
    REQUIRE(bench.swapper->ended());
    auto outcome = bench.swapper->take();
    REQUIRE(outcome.ok());
    CHECK(outcome->epoch == 2);
    CHECK(outcome->fetched == 2);
    CHECK(sums_in(outcome->table, *bench.blocks) == std::map<std::string, std::int64_t>{{"key", 10}});
    CHECK(scripted->confirmed == std::vector<std::uint64_t>{0, 0, 1});
    REQUIRE(scripted->orders.size() == 3);
    CHECK(scripted->orders[1].epoch == 0);
    CHECK(scripted->orders[2].epoch == 1);
}

TEST_CASE("what the switch has lost is told to the session, and ends the swaps") {
    const auto scripted = std::make_shared<SteppedSwitch>(
        [](unsigned /*call*/, CallCancel* /*cancel*/) -> Result<FetchedCopy> {
            return Error(Errc::kSwitchLost, "restarted");
        },
        [](unsigned /*call*/) { return Result<>(); });
    const Bench bench(scripted);
    bench.arrive();
    const SessionEvent lost = await(*bench.mailbox, SessionEvent::Kind::kSwitchLost);
    REQUIRE(lost.error.has_value());
    CHECK(lost.error->code() == Errc::kSwitchLost);
    CHECK_FALSE(bench.swapper->take().ok());
    CHECK(scripted->confirmed.empty());
}

TEST_CASE("a session that ends does not wait for a switch that hangs") {
    struct Hang {
        Mutex mutex;
        CondVar changed;
        bool begun = false;
        bool over = false;
    };
    const auto hang = std::make_shared<Hang>();
    const auto scripted = std::make_shared<SteppedSwitch>(
        [hang](unsigned /*call*/, CallCancel* cancel) -> Result<FetchedCopy> {
            const CancelScope scope(cancel, [hang] {
                const Guard lock(hang->mutex);
                hang->over = true;
                hang->changed.notify_all();
            });
            Lock lock(hang->mutex);
            hang->begun = true;
            hang->changed.notify_all();
            hang->changed.wait_until(lock, Clock::now() + kPatience, [&] { return hang->over; });
            return Error(Errc::kAborted, hang->over ? "cancelled" : "nobody has cancelled it");
        },
        [](unsigned /*call*/) { return Result<>(); });
    Bench bench(scripted);
    bench.arrive();
    {
        Lock lock(hang->mutex);
        REQUIRE(hang->changed.wait_until(lock, Clock::now() + kPatience, [&] { return hang->begun; }));
    }
    bench.swapper.reset();
    CHECK(hang->over);
    CHECK(scripted->confirmed.empty());
}
