// SPDX-License-Identifier: Apache-2.0
//
// Tables of back levels that tasks have given back: which are kept, and that the next task finds them blank.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "lib/control/switch/back_pool.h"
#include "lib/control/switch/controller.h"
#include "tests/unit/control/memory_switch.h"
#include "tests/unit/control/small_task.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kPoolHost = 0xc6120102;
constexpr std::uint64_t kPoolBytes = 1U << 20U;
constexpr BackWish kPoolKeys{.wanted = true, .keys = {1000}, .guess = false};
const std::uint64_t kTable = back_bytes(back_for({1000}));

OwnMapPtr some_map() {
    return std::make_shared<MemoryMap>();
}

// Blanking stops at a gate, if it is closed.
class GatedSwitch final : public MemorySwitch {
 public:
    Result<bool> blank_back(const OwnMap& map, unsigned group, std::uint32_t buckets,
                            const std::function<bool()>& go_on) const override {
        std::unique_lock lock(mutex_);
        ++begun_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
        lock.unlock();
        return fails_ ? Result<bool>(Error(Errc::kInternal, "no mapping"))
                      : MemorySwitch::blank_back(map, group, buckets, go_on);
    }
    Result<> make_pins(const std::string& pins) const override {
        const std::lock_guard lock(mutex_);
        made_.insert(pins);
        changed_.notify_all();
        return MemorySwitch::make_pins(pins);
    }
    // A task's memory is being made.
    void await_made(std::uint64_t instance) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return made_.contains(pins_of(instance)); });
    }
    void set_open(bool open) {
        const std::lock_guard lock(mutex_);
        open_ = open;
        changed_.notify_all();
    }
    void set_failing() { fails_ = true; }
    void await_begun(unsigned count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return begun_ >= count; });
    }

 private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable unsigned begun_ = 0;
    mutable std::set<std::string> made_;
    bool open_ = true;
    bool fails_ = false;
};

struct PoolSwitch {
    GatedSwitch store;
    std::unique_ptr<Controller> controller;
    Caller caller;

    explicit PoolSwitch(std::uint64_t back_bytes = kPoolBytes) {
        caller.address = "198.18.1.2";
        caller.ipv4 = kPoolHost;
        auto made = Controller::create(store, {.sram_bytes = kPoolBytes, .back_bytes = back_bytes});
        REQUIRE(made.ok());
        controller = std::move(*made);
    }
    TaskGrant open(std::uint64_t instance, const BackWish& back = kPoolKeys) const {
        TaskRequest request = small_task(instance, kPoolHost);
        request.back = back;
        const auto grant = controller->open_task(caller, request);
        REQUIRE_MESSAGE(grant.ok(), grant.error().text());
        return *grant;
    }
    void close(std::uint64_t instance) const { REQUIRE(controller->close_task(caller, instance).ok()); }
    // A program counts a key.
    void count(std::uint64_t instance) const {
        ask_back8 bucket{};
        std::memcpy(&bucket.key[0], "secret", 6);
        bucket.value[0] = ASK_BACK_WORD(7);
        store.write_back(pins_of(instance), ASK_BACK_8, std::as_bytes(std::span(&bucket, 1)));
    }
    [[nodiscard]] FetchSource source(std::uint64_t instance, const TaskGrant& grant) const {
        auto source = controller->begin_fetch(caller, {instance, grant.nonce}, 0);
        REQUIRE(source.ok());
        return *std::move(source);
    }
    [[nodiscard]] bool is_blank(std::uint64_t instance, const TaskGrant& grant) const {
        return std::ranges::all_of(source(instance, grant).back[ASK_BACK_8]->bytes(),
                                   [](std::byte byte) { return byte == std::byte{0}; });
    }
    [[nodiscard]] ControllerReport report() const { return *controller->report(); }
};

}  // namespace

TEST_CASE("a pool has a table for just its size and group, blank ones first, and drops the oldest") {
    BackPool pool;
    CHECK(pool.take(ASK_BACK_8, 64) == nullptr);
    pool.put(ASK_BACK_8, 64, some_map());
    pool.put(ASK_BACK_8, 128, some_map());
    pool.put(ASK_BACK_16, 64, some_map());
    CHECK(pool.bytes() == (64 + 128 + 2 * 64) * 64);
    const PooledBackPtr first = pool.next_to_blank();
    CHECK(first->buckets == 64);
    CHECK(first->group == ASK_BACK_8);
    first->state = PooledBack::State::kBlank;
    pool.put(ASK_BACK_8, 64, some_map());
    CHECK(pool.take(ASK_BACK_8, 64) == first);
    CHECK(pool.take(ASK_BACK_8, 192) == nullptr);
    CHECK(pool.count() == 3);
    pool.keep_within(pool.bytes() - 1);
    CHECK(pool.count() == 2);
    CHECK(pool.take(ASK_BACK_8, 128) == nullptr);
    CHECK(pool.take(ASK_BACK_8, 64)->state == PooledBack::State::kDirty);
    CHECK(pool.take(ASK_BACK_16, 64) != nullptr);
    CHECK(pool.bytes() == 0);
}

TEST_CASE("a pool keeps so many tables, and none that could not be blanked") {
    BackPool pool;
    for (std::size_t i = 0; i <= BackPool::kMost; ++i) {
        pool.put(ASK_BACK_8, 64, some_map());
    }
    const PooledBackPtr failed = pool.next_to_blank();
    failed->state = PooledBack::State::kFailed;
    pool.keep_within(kPoolBytes);
    CHECK(failed->dropped);
    CHECK(pool.count() == BackPool::kMost);
}

TEST_CASE("a task's table becomes another's, which finds nothing in it") {
    const PoolSwitch on;
    on.open(1);
    on.count(1);
    on.close(1);
    CHECK(on.report().back_used_bytes == 0);
    CHECK(on.report().back_kept_bytes == kTable);
    const TaskGrant second = on.open(2);
    CHECK(on.report().back_tables_made == 1);
    CHECK(on.report().back_tables_reused == 1);
    CHECK(on.report().back_kept_bytes == 0);
    CHECK(on.report().back_used_bytes == kTable);
    CHECK(on.is_blank(2, second));
}

TEST_CASE("a task that opens while its table is being blanked waits for it") {
    PoolSwitch on;
    on.open(1);
    on.count(1);
    on.store.set_open(false);
    on.close(1);
    on.store.await_begun(1);
    TaskGrant grant;
    std::thread opener([&] { grant = on.open(2); });
    on.store.await_made(2);
    // Nobody else waits, and who asks again hears of it.
    CHECK(on.open(3, {}).back_bytes == 0);
    CHECK(on.open(2).opening);
    on.store.set_open(true);
    opener.join();
    CHECK(!grant.opening);
    CHECK(grant.back_bytes == kTable);
    CHECK(on.report().back_tables_reused == 1);
    CHECK(on.is_blank(2, grant));
}

TEST_CASE("where memory is short, a table that is being blanked is waited for, until it gives up its own") {
    constexpr BackWish kLarger{.wanted = true, .keys = {3000}, .guess = false};
    const std::uint64_t bytes = back_bytes(back_for(kLarger.keys));
    PoolSwitch on(8 * bytes);
    on.open(1);
    on.store.set_open(false);
    on.close(1);
    on.store.await_begun(1);
    on.store.set_back_memory(bytes);
    TaskGrant grant;
    std::thread opener([&] { grant = on.open(2, kLarger); });
    on.store.await_made(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // enough for who does not wait
    on.store.set_open(true);
    opener.join();
    CHECK(grant.no_back_reason == "");
    CHECK(grant.back_bytes == bytes);
    CHECK(on.report().back_kept_bytes == 0);
}

TEST_CASE("a table that cannot be blanked is nobody's") {
    PoolSwitch on;
    on.open(1);
    on.count(1);
    on.store.set_failing();
    on.close(1);
    const TaskGrant second = on.open(2);
    CHECK(second.back_bytes == kTable);
    CHECK(on.report().back_tables_reused == 0);
    CHECK(on.is_blank(2, second));
}

TEST_CASE("while somebody reads a table it is not given to another") {
    const PoolSwitch on;
    const TaskGrant first = on.open(1);
    on.count(1);
    const FetchSource reading = on.source(1, first);
    on.close(1);
    CHECK(on.report().back_kept_bytes == 0);
    const TaskGrant second = on.open(2);
    CHECK(on.report().back_tables_made == 2);
    CHECK(on.is_blank(2, second));
    CHECK(on.source(2, second).back[ASK_BACK_8]->bytes().data() != reading.back[ASK_BACK_8]->bytes().data());
}

TEST_CASE("what is kept makes room for what tasks have") {
    const PoolSwitch on(8 * kTable);
    for (std::uint64_t instance = 1; instance <= 4; ++instance) {
        on.open(instance);
    }
    for (std::uint64_t instance = 1; instance <= 4; ++instance) {
        on.close(instance);
    }
    CHECK(on.report().back_kept_bytes > 0);
    // Of other sizes.
    on.open(5, {.wanted = true, .keys = {3000}, .guess = false});
    on.open(6, {.wanted = true, .keys = {0, 1000}, .guess = false});
    const ControllerReport report = on.report();
    CHECK(report.back_used_bytes + report.back_kept_bytes <= 8 * kTable);
    CHECK(report.back_tables_reused == 0);
}

TEST_CASE(
    "where memory is short, what is kept is given up for a task, and nothing of it is asked for twice") {
    constexpr BackWish kLarger{.wanted = true, .keys = {3000}, .guess = false};
    PoolSwitch on(8 * back_bytes(back_for(kLarger.keys)));
    on.open(1);
    on.close(1);
    REQUIRE(on.report().back_kept_bytes == kTable);
    on.store.set_back_memory(back_bytes(back_for(kLarger.keys)));
    const TaskGrant larger = on.open(2, kLarger);
    CHECK(larger.no_back_reason == "");
    CHECK(larger.back_bytes == back_bytes(back_for(kLarger.keys)));
    CHECK(on.report().back_kept_bytes == 0);
    // Nothing is left to be given up.
    const TaskGrant third = on.open(3);
    CHECK(third.no_back_reason == "no memory");
    CHECK(third.back_bytes == 0);
}
