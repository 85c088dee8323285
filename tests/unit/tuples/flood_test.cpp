// SPDX-License-Identifier: Apache-2.0
//
// Keys that somebody has chosen to make tables slow. What it costs is counted, not timed.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/tuples/combiner.h"
#include "lib/tuples/result_table.h"
#include "tests/support/chosen_keys.h"

namespace ask {
namespace {

using test::Keys;

constexpr std::size_t kFlood = 60'000;

// What a table has asked for.
struct Asked {
    std::span<std::byte> slots;
    std::span<std::byte> keys;
    std::size_t slot_blocks = 0;
    std::size_t seeds = 0;
    std::size_t reseeded = 0;
    std::size_t crowded = 0;
};

// Whose first seeds are known: with zeros for a seed all keys of up to eight bytes have one hash.
class KnownSeeds final : public TableMemory {
 public:
    KnownSeeds(std::size_t known, Asked& asked) : known_(known), asked_(asked) {}
    HashSeed draw_seed() override {
        ++asked_.seeds;
        return asked_.seeds <= known_ ? HashSeed{} : public_seed(asked_.seeds);
    }
    void note(Event event) override {
        asked_.reseeded += event == Event::kReseeded ? 1U : 0U;
        asked_.crowded += event == Event::kCrowded ? 1U : 0U;
    }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        auto block = heap_->allocate_slots(bytes);
        asked_.slots = block.value();
        ++asked_.slot_blocks;
        return block;
    }
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        auto block = heap_->grow_keys(bytes);
        asked_.keys = block.value();
        return block;
    }

 private:
    std::size_t known_;
    Asked& asked_;
    std::unique_ptr<TableMemory> heap_ = make_heap_memory();
};

struct Flooded {
    Asked asked;
    ResultTable table;
    explicit Flooded(std::size_t known)
        : table(ResultTable::create(std::make_unique<KnownSeeds>(known, asked), Op::kSum).value()) {}

    // Each twice, with its number for a value.
    void add(const Keys& keys) {
        for (int round = 0; round < 2; ++round) {
            for (std::size_t i = 0; i < keys.size(); ++i) {
                REQUIRE(table.add(keys[i], static_cast<std::int64_t>(i)).ok());
            }
        }
    }
    void check(const Keys& keys) {
        REQUIRE(table.finish().ok());
        const auto view = TableView::open(asked.slots, asked.keys);
        REQUIRE(view.ok());
        std::map<std::string, std::int64_t, std::less<>> found;
        REQUIRE(
            view->each([&](std::string_view key, std::int64_t value) { found.emplace(key, value); }).ok());
        REQUIRE(found.size() == keys.size());
        std::size_t right = 0;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const auto at = found.find(keys[i]);
            right += at != found.end() && at->second == static_cast<std::int64_t>(2 * i) ? 1U : 0U;
        }
        CHECK(right == keys.size());
    }
};

std::uint64_t probes_of(const Keys& keys, std::size_t known = 0) {
    Flooded flooded(known);
    flooded.add(keys);
    flooded.check(keys);
    return flooded.table.probes();
}

TEST_CASE("keys chosen against a public hash cost no more than others") {
    const std::uint64_t fair = probes_of(test::random_keys(kFlood));
    CHECK(fair < 10 * kFlood);
    CHECK(probes_of(test::keys_of_one_hash(kFlood)) <= 3 * fair);
    CHECK(probes_of(test::printable_crowd(kFlood)) <= 3 * fair);
    CHECK(probes_of(test::keys_of_one_slot(kFlood)) <= 3 * fair);
}

TEST_CASE("who knows the seed of a table gains little: it takes another one") {
    const Keys keys = test::random_keys(kFlood);
    Flooded flooded(1);
    flooded.add(keys);
    flooded.check(keys);
    CHECK(flooded.asked.seeds == 2);
    CHECK(flooded.asked.reseeded == 1);
    CHECK(flooded.asked.crowded == 0);
    CHECK(flooded.table.probes() <= 3 * probes_of(keys));
}

TEST_CASE("a table that no seed helps gives up, is slow until it grows, and right") {
    const Keys keys = test::random_keys(5000);
    Flooded flooded(SIZE_MAX);
    flooded.add(keys);
    flooded.check(keys);
    // Of each size from the one on in which keys could lie too far.
    CHECK(flooded.asked.crowded >= 1);
    CHECK(flooded.asked.crowded <= flooded.asked.slot_blocks);
    CHECK(flooded.asked.reseeded == flooded.asked.crowded * (ResultTable::kMostRebuilds - 1));
    CHECK(flooded.asked.seeds == 1 + flooded.asked.crowded * ResultTable::kMostRebuilds);
    // 1024 entries to begin with, doubled: a rebuild takes no other block.
    CHECK(flooded.asked.slot_blocks == 4);
}

TEST_CASE("a rebuild between packets moves what is there, and nothing is lost or twice") {
    Flooded flooded(1);
    ResultTable& table = flooded.table;
    const Keys keys = test::random_keys(ResultTable::kFarthest + 2);
    REQUIRE(table.reserve(keys.size(), keys.size() * 8).ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        table.add_reserved(keyed_hash(table.seed(), keys[i]), keys[i], static_cast<std::int64_t>(i));
    }
    // Hashes that were made before hold until it is told that a packet begins.
    CHECK(flooded.asked.seeds == 1);
    CHECK(table.contains(keyed_hash(table.seed(), keys.back()), keys.back()));
    table.settle();
    CHECK(flooded.asked.seeds == 2);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        table.add_reserved(keyed_hash(table.seed(), keys[i]), keys[i], static_cast<std::int64_t>(i));
    }
    flooded.check(keys);
}

TEST_CASE("tables of different seeds are merged") {
    const Keys keys = test::random_keys(20'000);
    Flooded one(0);
    Flooded other(1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto value = static_cast<std::int64_t>(i);
        REQUIRE(one.table.add(keys[i], i % 3 == 0 ? 2 * value : value).ok());
        REQUIRE((i % 3 == 0 || other.table.add(keys[i], value).ok()));
    }
    REQUIRE(one.table.merge(other.table).ok());
    one.check(keys);
}

// Tuples of so many that were merged.
std::uint64_t merged_of(const Keys& keys) {
    Combiner combiner(Op::kSum, 4096, public_seed(7));
    const auto out = [](const Tuple&) { return Result<>(); };
    for (int round = 0; round < 20; ++round) {
        for (const std::string& key : keys) {
            const Tuple tuple(key, 1);
            REQUIRE(combiner.add(std::span(&tuple, 1), out).ok());
        }
    }
    return combiner.merged();
}

TEST_CASE("keys chosen against a public hash are merged by their sender as others are") {
    constexpr std::size_t kKeys = 1000;
    const auto make = [](std::uint64_t i) { return "k" + std::to_string(i); };
    const Keys fair = test::choose_keys(kKeys, make, [](const std::string&) { return true; });
    // A 64th of the sets, where the public constants choose them.
    const Keys chosen = test::choose_keys(kKeys, make, [](const std::string& key) {
        const std::uint64_t tag = Tuple(key, 1).head | std::uint64_t{key.size() + 1} << 56;
        return (detail::fold(tag ^ detail::kHashA, detail::kHashB) & 0x3f0U) == 0;
    });
    CHECK(merged_of(fair) > 18 * kKeys);
    CHECK(merged_of(chosen) > 18 * kKeys);
}

}  // namespace
}  // namespace ask
