// SPDX-License-Identifier: Apache-2.0
#include "agent/memfd_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/tuples/result_table.h"

using namespace ask;

namespace {

constexpr std::size_t kMiB = 1U << 20U;

std::span<const std::byte> map_readonly(int block) {
    struct stat info{};
    REQUIRE(::fstat(block, &info) == 0);
    const auto size = static_cast<std::size_t>(info.st_size);
    void* const base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, block, 0);
    REQUIRE(base != MAP_FAILED);
    return {static_cast<const std::byte*>(base), size};
}

}  // namespace

TEST_CASE("a table is handed over as it stands, sealed, and paid back") {
    MemoryBudget budget(256 * kMiB);
    std::map<std::string, std::int64_t, std::less<>> expected;
    auto table = ResultTable::create(std::make_unique<MemfdTableMemory>(&budget), Op::kSum);
    REQUIRE(table.ok());
    // Enough to grow slots and keys several times.
    for (int i = 0; i < 100000; ++i) {
        const std::string key = "key-" + std::to_string(i % 30000);
        REQUIRE(table->add(key, i).ok());
        expected[key] += i;
    }
    REQUIRE(table->finish().ok());
    auto sealed = static_cast<MemfdTableMemory&>(table->memory()).take_sealed();
    REQUIRE(sealed.ok());
    // Whoever has it pays for it.
    CHECK(budget.used() > 0);
    CHECK(budget.used() == (*sealed)->bytes());

    const std::vector<int> fds = (*sealed)->descriptors();
    auto view = TableView::open(map_readonly(fds.at(0)), map_readonly(fds.at(1)));
    REQUIRE_MESSAGE(view.ok(), view.error().text());
    CHECK(view->size() == expected.size());
    std::size_t same = 0;
    const auto walked = view->each([&](std::string_view key, std::int64_t value) {
        const auto at = expected.find(key);
        same += at != expected.end() && at->second == value ? 1U : 0U;
    });
    CHECK(walked.ok());
    CHECK(same == expected.size());
    for (const int block : fds) {
        CHECK(::ftruncate(block, 0) != 0);
        CHECK(::mmap(nullptr, 1, PROT_WRITE, MAP_SHARED, block, 0) == MAP_FAILED);
    }
    sealed->reset();
    CHECK(budget.used() == 0);
}

TEST_CASE("an empty table can be handed over too") {
    MemoryBudget budget(kMiB);
    auto table = ResultTable::create(std::make_unique<MemfdTableMemory>(&budget), Op::kMin);
    REQUIRE(table.ok());
    REQUIRE(table->finish().ok());
    auto sealed = static_cast<MemfdTableMemory&>(table->memory()).take_sealed();
    REQUIRE(sealed.ok());
    const std::vector<int> fds = (*sealed)->descriptors();
    const auto view = TableView::open(map_readonly(fds.at(0)), map_readonly(fds.at(1)));
    REQUIRE(view.ok());
    CHECK(view->size() == 0);
}

TEST_CASE("tables share a limit; one that would pass it is unchanged, and goes on when there is room") {
    MemoryBudget budget(4 * kMiB);
    auto first = ResultTable::create(std::make_unique<MemfdTableMemory>(&budget), Op::kSum);
    REQUIRE(first.ok());
    std::uint64_t keys = 0;
    Result<> added;
    constexpr std::uint64_t kTooMany = 1000000;
    while (keys < kTooMany && (added = first->add("k" + std::to_string(keys), 1)).ok()) {
        ++keys;
    }
    REQUIRE_FALSE(added.ok());
    CHECK(added.error().code() == Errc::kLimit);
    CHECK(first->size() == keys);
    CHECK(budget.used() <= budget.limit());
    CHECK(first->add("k0", 1).ok());
    {
        ResultTable gone(std::move(*first));
    }
    CHECK(budget.used() == 0);
}

TEST_CASE("the budget never goes past its limit") {
    MemoryBudget budget(100);
    CHECK(budget.reserve(60));
    CHECK_FALSE(budget.reserve(41));
    CHECK_FALSE(budget.reserve(SIZE_MAX));
    CHECK(budget.reserve(40));
    budget.release(100);
    CHECK(budget.used() == 0);
}

TEST_CASE("whoever can gives something up for those that need it, and no more than that") {
    MemoryBudget budget(100);
    int given = 0;
    budget.set_reclaim([&] {
        if (given == 2) {
            return false;
        }
        ++given;
        budget.release(30);
        return true;
    });
    REQUIRE(budget.reserve(90));
    CHECK(given == 0);
    CHECK(budget.reserve(20));
    CHECK(given == 1);
    // Nothing would be enough.
    CHECK_FALSE(budget.reserve(101));
    CHECK(given == 1);
    CHECK_FALSE(budget.reserve(80));
    CHECK(given == 2);
}
