// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/result_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace ask {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

// Hands the test a look at the blocks, which the table's owner has in the agent.
struct Blocks {
    std::span<std::byte> slots;
    std::span<std::byte> keys;
    int allocations = 0;
    bool refuse = false;
};

class WatchedMemory final : public TableMemory {
 public:
    explicit WatchedMemory(Blocks& blocks, std::size_t limit = SIZE_MAX)
        : blocks_(blocks), heap_(make_heap_memory(limit)) {}
    HashSeed draw_seed() override { return heap_->draw_seed(); }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        if (blocks_.refuse) {
            return Error(Errc::kLimit, "refused");
        }
        auto block = heap_->allocate_slots(bytes);
        if (block) {
            blocks_.slots = *block;
            ++blocks_.allocations;
        }
        return block;
    }
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        if (blocks_.refuse) {
            return Error(Errc::kLimit, "refused");
        }
        auto block = heap_->grow_keys(bytes);
        if (block) {
            blocks_.keys = *block;
        }
        return block;
    }

 private:
    Blocks& blocks_;
    std::unique_ptr<TableMemory> heap_;
};

ResultTable make_table(Blocks& blocks, Op op = Op::kSum, std::size_t limit = SIZE_MAX) {
    auto table = ResultTable::create(std::make_unique<WatchedMemory>(blocks, limit), op);
    REQUIRE(table.ok());
    return std::move(*table);
}

std::map<std::string, std::int64_t> contents(ResultTable& table, const Blocks& blocks) {
    REQUIRE(table.finish().ok());
    const auto view = TableView::open(blocks.slots, blocks.keys);
    REQUIRE(view.ok());
    std::map<std::string, std::int64_t> all;
    CHECK(view->each([&](std::string_view key, std::int64_t value) { all.emplace(key, value); }).ok());
    CHECK(all.size() == table.size());
    return all;
}

TEST_CASE("keys that differ in nothing but a trailing zero are different") {
    Blocks blocks;
    ResultTable table = make_table(blocks);
    const std::vector<std::string> keys = {"",
                                           std::string(1, '\0'),
                                           std::string(2, '\0'),
                                           "a",
                                           std::string("a\0", 2),
                                           std::string("a\0b", 3),
                                           "abcdefgh",
                                           std::string("abcdefgh\0", 9),
                                           std::string(65535, 'x'),
                                           std::string(65534, 'x') + '\0'};
    std::int64_t value = 1;
    for (int round = 0; round < 2; ++round) {
        for (const std::string& key : keys) {
            REQUIRE(table.add(key, value++).ok());
        }
    }
    const auto all = contents(table, blocks);
    REQUIRE(all.size() == keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        CHECK(all.at(keys[i]) == static_cast<std::int64_t>(2 * i + 2 + keys.size()));
    }
}

TEST_CASE("a table grows and keeps every sum") {
    Blocks blocks;
    ResultTable table = make_table(blocks);
    std::mt19937_64 random(7);
    std::map<std::string, std::int64_t> expected;
    for (int i = 0; i < 60'000; ++i) {
        const std::string key = std::to_string(random() % 20'000);
        const auto value = static_cast<std::int64_t>(random() % 1000) - 500;
        expected[key] += value;
        REQUIRE(table.add(key, value).ok());
    }
    CHECK(contents(table, blocks) == expected);
    CHECK(blocks.allocations > 4);
}

TEST_CASE("MIN and MAX keep the first value as it is") {
    for (const Op op : {Op::kMin, Op::kMax}) {
        Blocks blocks;
        ResultTable table = make_table(blocks, op);
        for (const std::int64_t value : {5, -3, 9}) {
            REQUIRE(table.add("k", value).ok());
        }
        REQUIRE(table.add("least", kLeast).ok());
        REQUIRE(table.add("most", kMost).ok());
        const auto all = contents(table, blocks);
        CHECK(all.at("k") == (op == Op::kMin ? -3 : 9));
        CHECK(all.at("least") == kLeast);
        CHECK(all.at("most") == kMost);
    }
}

TEST_CASE("overflow is judged at the end, whatever the order, and names the key") {
    Blocks blocks;
    ResultTable table = make_table(blocks);
    for (const std::int64_t value : {kMost, kMost, kLeast, std::int64_t{1}}) {
        REQUIRE(table.add("back", value).ok());
    }
    CHECK(contents(table, blocks).at("back") == kMost);
    REQUIRE(table.add("z", kMost).ok());
    REQUIRE(table.add("z", 1).ok());
    const std::string odd = std::string("a\0'", 3) + std::string(100, 'q');
    REQUIRE(table.add(odd, kLeast).ok());
    REQUIRE(table.add(odd, -1).ok());
    const auto finished = table.finish();
    REQUIRE_FALSE(finished.ok());
    CHECK(finished.error().code() == Errc::kOverflow);
    // The smallest of both, escaped and cut.
    const std::string& text = finished.error().text();
    CHECK(text.find("key 'a\\x00\\x27" + std::string(61, 'q') + "'... (103 bytes)") != std::string::npos);
    CHECK_FALSE(TableView::open(blocks.slots, blocks.keys).ok());
}

TEST_CASE("a full table refuses new keys, takes known ones and stays whole") {
    Blocks blocks;
    ResultTable table = make_table(blocks, Op::kSum, 300'000);
    std::map<std::string, std::int64_t> expected;
    bool full = false;
    for (int i = 0; i < 50'000; ++i) {
        const std::string key = "key number " + std::to_string(i);
        const auto added = table.add(key, i);
        if (added) {
            expected[key] = i;
        } else {
            full = true;
            CHECK(added.error().code() == Errc::kLimit);
            CHECK(added.error().text().find(key) != std::string::npos);
            break;
        }
    }
    REQUIRE(full);
    for (auto& [key, value] : expected) {
        REQUIRE(table.add(key, 1).ok());
        value += 1;
    }
    CHECK(contents(table, blocks) == expected);
}

TEST_CASE("merge is whole or nothing") {
    Blocks blocks;
    Blocks other_blocks;
    ResultTable table = make_table(blocks);
    ResultTable other = make_table(other_blocks);
    REQUIRE(table.add("both", kMost).ok());
    REQUIRE(other.add("both", kMost).ok());
    REQUIRE(other.add("both", kLeast).ok());
    for (int i = 0; i < 5000; ++i) {
        REQUIRE(other.add("only " + std::to_string(i), i).ok());
    }
    blocks.refuse = true;
    CHECK(table.merge(other).error().code() == Errc::kLimit);
    CHECK(table.size() == 1);
    blocks.refuse = false;
    REQUIRE(table.merge(other).ok());
    const auto all = contents(table, blocks);
    CHECK(all.size() == 5001);
    CHECK(all.at("both") == kMost - 1);
    CHECK(all.at("only 4999") == 4999);
    Blocks min_blocks;
    CHECK_FALSE(table.merge(make_table(min_blocks, Op::kMin)).ok());
}

TEST_CASE("a table that cannot be had is an error") {
    auto table = ResultTable::create(make_heap_memory(1000), Op::kSum);
    REQUIRE_FALSE(table.ok());
    CHECK(table.error().code() == Errc::kLimit);
}

TEST_CASE("a damaged table gives errors, never a wild read") {
    Blocks blocks;
    ResultTable table = make_table(blocks);
    for (int i = 0; i < 300; ++i) {
        REQUIRE(table.add("some key " + std::to_string(i), i).ok());
    }
    REQUIRE(table.finish().ok());
    std::mt19937_64 random(3);
    int errors = 0;
    for (int round = 0; round < 1000; ++round) {
        // Copies of the exact size, so that a sanitizer sees a byte too far.
        std::vector<std::byte> slots(blocks.slots.begin(), blocks.slots.end());
        const std::vector<std::byte> keys(blocks.keys.begin(), blocks.keys.begin() + 4000);
        for (int change = 0; change < 8; ++change) {
            const std::size_t at = change == 0 ? random() % 64 : random() % slots.size();
            slots[at] = static_cast<std::byte>(random());
        }
        slots.resize(round % 2 == 0 ? slots.size() : random() % slots.size());
        const auto view = TableView::open(slots, keys);
        std::size_t bytes = 0;
        const bool read =
            view.ok() && view->each([&](std::string_view key, std::int64_t) {
                                 bytes += static_cast<std::size_t>(std::count(key.begin(), key.end(), 'k'));
                             })
                             .ok();
        errors += read ? 0 : 1;
    }
    CHECK(errors > 300);
    CHECK_FALSE(TableView::open({}, {}).ok());
    CHECK_FALSE(TableView::open(blocks.slots, blocks.keys).value().at(1 << 20).ok());
}

}  // namespace
}  // namespace ask
