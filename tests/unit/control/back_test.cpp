// SPDX-License-Identifier: Apache-2.0
//
// Back levels at a switch's controller: granted from what is free, fetched with the region, ended once,
// adopted.
#include <endian.h>

#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "lib/control/switch/controller.h"
#include "lib/control/switch/fetch.h"
#include "lib/tuples/fetch_codec.h"
#include "tests/unit/control/memory_switch.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kReceiverHost = 0xc6120102;
constexpr std::uint64_t kMib = 1U << 20U;

Caller local_host() {
    Caller caller;
    caller.address = "198.18.1.2";
    caller.ipv4 = kReceiverHost;
    return caller;
}

const Caller kReceiverAgent = local_host();

struct BackSwitch {
    MemorySwitch store;
    std::unique_ptr<Controller> controller;

    explicit BackSwitch(std::uint64_t back_bytes = kMib) { start(back_bytes); }
    void start(std::uint64_t back_bytes = kMib, std::uint64_t quota = 0) {
        controller.reset();
        auto made = Controller::create(
            store, {.sram_bytes = kMib, .back_bytes = back_bytes, .quota = {.back_bytes = quota}});
        REQUIRE_MESSAGE(made.ok(), made.error().text());
        controller = std::move(*made);
    }
    Result<TaskGrant> open(std::uint64_t instance, const BackWish& back, std::uint32_t copies = 1,
                           std::uint32_t aggregators = 16) const {
        TaskRequest request;
        request.id = "t" + std::to_string(instance);
        request.instance = instance;
        request.geometry = {.short_slots = 4, .groups = 0, .m = 0, .rows = 1};
        request.aggregators = aggregators;
        request.copies = copies;
        request.back = back;
        request.receiver = "198.18.1.2:4791";
        request.receiver_address = kReceiverHost;
        return controller->open_task(kReceiverAgent, request);
    }
    [[nodiscard]] ask_back back_at(std::uint32_t index) const {
        return store.backs().find(index)->value_or(ask_back{});
    }
    [[nodiscard]] std::uint64_t used() const { return controller->report()->back_used_bytes; }
    // Entries of both levels, as "key=value ".
    Result<std::string> fetch(const RegionId& region, bool close, std::uint64_t epoch = 0,
                              std::uint64_t skip = 0) const {
        std::string text;
        const auto end = fetch_copy(
            *controller, kReceiverAgent, {.region = region, .epoch = epoch, .close = close, .skip = skip}, 64,
            [&text](const std::string& entries) {
                for (EntryReader reader(entries); !reader.done();) {
                    const auto entry = reader.next();
                    REQUIRE(entry.ok());
                    text += std::string(entry->key) + "=" + std::to_string(entry->value) + " ";
                }
                return true;
            });
        ASK_PASS(end);
        REQUIRE(end->has_value());
        return text;
    }
    // A program counts a key of up to 4 bytes in the front, at that word.
    void count_front(std::uint64_t instance, std::size_t word, const std::string& key,
                     std::int32_t value) const {
        ask_aggregator tuple{};
        std::memcpy(&tuple.kpart, key.data(), key.size());
        tuple.vpart = value;
        store.write_front(pins_of(instance), word, tuple);
    }
    // A program counts a key of up to 8 bytes.
    void count(std::uint64_t instance, const std::string& key, std::int64_t value) const {
        ask_back8 bucket{};
        std::memcpy(&bucket.key[0], key.data(), key.size());
        bucket.value[0] = ASK_BACK_WORD(value);
        store.write_back(pins_of(instance), ASK_BACK_8, std::as_bytes(std::span(&bucket, 1)));
    }
};

BackWish keys(std::uint64_t small, std::uint64_t large = 0) {
    return {.wanted = true, .keys = {small, large}, .guess = false};
}

}  // namespace

TEST_CASE("a task gets what its keys need, up to half of what is free") {
    BackSwitch on;
    const auto first = on.open(1, keys(1000, 500));
    REQUIRE(first.ok());
    CHECK(first->back_bytes == back_bytes(back_for({1000, 500})));
    CHECK(first->no_back_reason.empty());
    CHECK(on.used() == first->back_bytes);
    const auto second = on.open(2, keys(100'000));
    REQUIRE(second.ok());
    CHECK(second->back_bytes <= (kMib - first->back_bytes) / 2);
    CHECK(second->back_bytes > (kMib - first->back_bytes) / 4);
    CHECK(on.used() == first->back_bytes + second->back_bytes);
    REQUIRE(on.controller->close_task(kReceiverAgent, 2).ok());
    REQUIRE(on.controller->close_task(kReceiverAgent, 1).ok());
    CHECK(on.used() == 0);
    CHECK(on.back_at(0).buckets[0] == 0);
}

TEST_CASE("of which nobody knows the keys: up to an eighth of what is free, for all groups") {
    BackSwitch on;
    const auto grant = on.open(1, {.wanted = true, .keys = {}, .guess = true});
    REQUIRE(grant.ok());
    // Of the seven eighths that one host may have, rounded down.
    CHECK(grant->back_bytes == kMib / 16);
    CHECK(on.back_at(0).buckets[ASK_BACK_8] == 256);
    CHECK(on.back_at(0).buckets[ASK_BACK_16] == 128);
    CHECK(on.back_at(0).buckets[ASK_BACK_32] == 128);
    CHECK(on.back_at(0).buckets[ASK_BACK_64] == 64);
}

TEST_CASE("who renews a task hears how many keys its back level has at least") {
    BackSwitch on;
    REQUIRE(on.open(1, keys(1000)).ok());
    const auto has = [&] {
        const std::vector<std::uint64_t> instances{1};
        const auto reports = on.controller->report_tasks(kReceiverAgent, instances);
        REQUIRE(reports.ok());
        return reports->at(0).back_has;
    };
    CHECK(has() == BackSize{});
    std::vector<ask_back8> table(100);
    for (ask_back8& bucket : table) {
        for (unsigned entry = 0; entry < ASK_BACK8_ENTRIES; ++entry) {
            std::memcpy(&bucket.key[entry], "sixsix", 6);
            bucket.value[entry] = ASK_BACK_WORD(1);
        }
    }
    on.store.write_back(pins_of(1), ASK_BACK_8, std::as_bytes(std::span(table)));
    CHECK(has() == BackSize{.entries = 320, .key_bytes = 1920});
}

TEST_CASE("what is refused says why, and the task goes without") {
    BackSwitch on;
    CHECK(on.open(1, keys(10'000'000))->no_back_reason.find("back_mib") != std::string::npos);
    CHECK(on.open(2, keys(10'000'000))->back_bytes == 0);
    CHECK(on.open(3, {})->no_back_reason.empty());
    CHECK(on.open(4, keys(100), 0)->back_bytes == 0);
    on.store.refuse_back();
    const auto without = on.open(5, keys(100));
    CHECK(without->back_bytes == 0);
    CHECK(without->no_back_reason == "no memory");
    CHECK(without->copies == 1);
    CHECK(on.used() == 0);
    on.start(0);
    CHECK(on.open(6, keys(100))->no_back_reason.find("back_mib is 0") != std::string::npos);
}

TEST_CASE("one host gets no more than its quota") {
    BackSwitch on;
    on.start(kMib, kMib / 4);
    CHECK(on.open(1, keys(100'000))->back_bytes <= kMib / 8);
    CHECK(on.open(2, keys(100'000))->back_bytes <= kMib / 8);
    CHECK(on.used() <= kMib / 4);
}

// SwitchAgg divides its memory evenly among the trees that there are (its trace S5).
TEST_CASE("a second task gets what is left, and the first keeps what it has") {
    constexpr std::uint32_t kMost = 6 * 1024;  // of 8 Ki that a stage has for an AA
    BackSwitch on;
    const auto first = on.open(1, keys(10'000), 1, kMost);
    REQUIRE(first.ok());
    REQUIRE(first->aggregators == kMost);
    on.count_front(1, kMost - 1, "ab", 1);
    on.count(1, "left", 7);
    const RegionId region{1, first->nonce};
    const auto before = on.controller->report()->tasks[0];
    // Until there is nothing left of either.
    bool less = false;
    for (std::uint64_t instance = 2; instance <= 6; ++instance) {
        const auto more = on.open(instance, keys(10'000), 1, kMost);
        REQUIRE(more.ok());
        less = less || (more->aggregators < kMost && more->back_bytes < first->back_bytes);
    }
    CHECK(less);
    const auto report = on.controller->report();
    const auto after = std::ranges::find(report->tasks, 1U, &TaskReport::instance);
    REQUIRE(after != report->tasks.end());
    CHECK(after->aggregators == kMost);
    CHECK(after->region_bytes == before.region_bytes);
    CHECK(after->back_bytes == before.back_bytes);
    CHECK(after->nonce == first->nonce);
    CHECK(*on.fetch(region, false) == "ab=1 left=7 ");
}

TEST_CASE("a fetch has both levels, and a successor's too") {
    BackSwitch on;
    const auto grant = on.open(1, keys(100));
    REQUIRE(grant.ok());
    on.count(1, "left", 7);
    const RegionId region{1, grant->nonce};
    CHECK(*on.fetch(region, false) == "left=7 ");
    const std::uint64_t used = on.used();
    on.start();
    CHECK(on.used() == used);
    CHECK(*on.fetch(region, false) == "left=7 ");
    CHECK(on.controller->report()->tasks[0].back_bytes == used);
}

TEST_CASE("a fetch goes on behind what its caller has, in either level and at their seam") {
    BackSwitch on;
    const auto grant = on.open(1, keys(100, 100));
    REQUIRE(grant.ok());
    const RegionId region{1, grant->nonce};
    on.count_front(1, 0, "ab", 1);
    on.count_front(1, 3, "cd", 2);
    on.count_front(1, 20, "ef", 3);
    on.count(1, "left", 7);
    const auto whole = on.fetch(region, false);
    REQUIRE(whole.ok());
    REQUIRE(std::ranges::count(*whole, ' ') == 4);
    std::string rest = *whole;
    for (std::uint64_t skip = 0; skip <= 4; ++skip) {
        CHECK(*on.fetch(region, false, 0, skip) == rest);
        rest.erase(0, rest.find(' ') + 1);
    }
    // More than there is: nothing comes, and the end says how many there are.
    CHECK(on.fetch(region, false, 0, 1000)->empty());
}

TEST_CASE("what a large back level has is said before it comes, to who begins with it") {
    const BackSwitch on(std::uint64_t{4} << 30U);
    const auto large = on.open(1, keys(2'000'000));
    REQUIRE(large.ok());
    REQUIRE(large->back_bytes >= 64 * kMib);
    const auto small = on.open(2, keys(1000));
    REQUIRE(small.ok());
    on.count(1, "left", 7);
    on.count(2, "left", 7);
    std::vector<BackSize> told;
    const auto fetch = [&](std::uint64_t instance, const TaskGrant& grant, std::uint64_t skip) {
        const bool whole =
            fetch_copy(
                *on.controller, kReceiverAgent, {.region = {instance, grant.nonce}, .skip = skip}, 64,
                [](const std::string& /*entries*/) { return true; },
                [&told](const BackSize& size) { told.push_back(size); })
                .ok();
        CHECK(whole);
    };
    fetch(1, *large, 0);
    CHECK(told == std::vector<BackSize>{{.entries = 1, .key_bytes = 4}});
    fetch(1, *large, 1);
    fetch(2, *small, 0);
    CHECK(told.size() == 1);
}

TEST_CASE("to close an epoch ends the back level, also for a successor") {
    BackSwitch on;
    const auto grant = on.open(1, keys(100), 2);
    REQUIRE(grant.ok());
    const RegionId region{1, grant->nonce};
    CHECK((*on.store.tasks().find(0))->back == 1);
    on.count(1, "left", 7);
    CHECK(*on.fetch(region, true) == "left=7 ");
    CHECK((*on.store.tasks().find(0))->back == 0);
    // Asked again, as by somebody who has not had the answer.
    CHECK(*on.fetch(region, true) == "left=7 ");
    on.start();
    CHECK((*on.store.tasks().find(0))->back == 0);
    CHECK(*on.fetch(region, true) == "left=7 ");
}

TEST_CASE("a task that has lost a part of its back level is none, and what is left of it goes") {
    BackSwitch on;
    REQUIRE(on.open(1, keys(100, 100)).ok());
    REQUIRE(on.store.unpin(pins_of(1), TaskPin::kBack16).ok());
    on.start();
    CHECK(on.controller->report()->tasks.empty());
    CHECK(on.used() == 0);
    CHECK(on.back_at(0).buckets[ASK_BACK_8] == 0);
    CHECK(on.store.pinned_tasks()->empty());
}
