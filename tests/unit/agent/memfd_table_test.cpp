// SPDX-License-Identifier: Apache-2.0
#include "agent/memfd_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"
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
    const auto slots = map_readonly(fds.at(0));
    const auto keys = map_readonly(fds.at(1));
    auto view = TableView::open(slots, keys);
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
    for (const std::span<const std::byte> mapped : {slots, keys}) {
        CHECK(budget.look_at_held() > 0);
        REQUIRE(::munmap(const_cast<std::byte*>(mapped.data()), mapped.size()) == 0);
    }
    CHECK(budget.look_at_held() == 0);
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

namespace {

std::shared_ptr<const SealedTable> sealed_table(MemfdTables& tables, int keys, std::uint32_t user = 0) {
    auto table = ResultTable::create(tables.make_memory(user), Op::kSum);
    REQUIRE(table.ok());
    for (int i = 0; i < keys; ++i) {
        REQUIRE(table->add("key-" + std::to_string(i), i).ok());
    }
    REQUIRE(table->finish().ok());
    auto sealed = tables.seal(std::move(*table));
    REQUIRE(sealed.ok());
    return *sealed;
}

}  // namespace

TEST_CASE("memory that applications hold stays paid for, by whatever they hold it") {
    AgentCounters counters;
    MemfdTables tables(64 * kMiB, 64 * kMiB, &counters);
    MemoryBudget& budget = tables.budget();
    auto sealed = sealed_table(tables, 1000);
    const std::size_t all = sealed->bytes();
    REQUIRE(budget.used() == all);
    // As an application gets them.
    UniqueFd slots(::fcntl(sealed->descriptors().at(0), F_DUPFD_CLOEXEC, 0));
    const auto keys = map_readonly(sealed->descriptors().at(1));
    // One may ask for another description, by /proc.
    const std::string path = "/proc/self/fd/" + std::to_string(slots.get());
    UniqueFd again(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(again);
    sealed.reset();
    CHECK(budget.used() == all);
    CHECK(budget.look_at_held() == all);
    CHECK(counters.get(AgentCounter::k_blocks_held) == 2);
    REQUIRE(::munmap(const_cast<std::byte*>(keys.data()), keys.size()) == 0);
    CHECK(budget.look_at_held() == all - keys.size());
    slots.reset();
    CHECK(budget.look_at_held() == all - keys.size());
    again.reset();
    CHECK(budget.look_at_held() == 0);
    CHECK(budget.used() == 0);
}

TEST_CASE("results on their way to an application are held") {
    AgentCounters counters;
    MemfdTables tables(64 * kMiB, 64 * kMiB, &counters);
    auto sealed = sealed_table(tables, 10);
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    UniqueFd here(ends[0]);
    UniqueFd there(ends[1]);
    const int fd = sealed->descriptors().at(0);
    char byte = 'x';
    iovec data{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    REQUIRE(::sendmsg(here.get(), &message, 0) == 1);
    sealed.reset();
    CHECK(tables.budget().look_at_held() > 0);
    here.reset();
    there.reset();
    CHECK(tables.budget().look_at_held() == 0);
}

TEST_CASE("results that applications hold leave others less, and the error says so") {
    AgentCounters counters;
    MemfdTables tables(4 * kMiB, 4 * kMiB, &counters);
    MemoryBudget& budget = tables.budget();
    auto sealed = sealed_table(tables, 30'000);
    const std::size_t all = sealed->bytes();
    REQUIRE(all > 2 * kMiB);
    UniqueFd slots(::fcntl(sealed->descriptors().at(0), F_DUPFD_CLOEXEC, 0));
    sealed.reset();
    auto other = ResultTable::create(tables.make_memory(0), Op::kSum);
    REQUIRE(other.ok());
    const auto refused = other->reserve(40'000, 0);
    REQUIRE_FALSE(refused.ok());
    CHECK_MESSAGE(
        refused.error().text().find("2 of them for results that applications hold") != std::string::npos,
        refused.error().text());
    CHECK(budget.used() <= budget.limit());
    // Nobody has to say that he has let go of it.
    slots.reset();
    CHECK(other->reserve(40'000, 0).ok());
}

namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a user's tables take his part and no more, root's all there is") {
    AgentCounters counters;
    MemfdTables tables(8 * kMiB, 4 * kMiB, &counters);
    const auto make = [&](std::uint32_t user) {
        auto table = ResultTable::create(tables.make_memory(user), Op::kSum);
        REQUIRE(table.ok());
        return *std::move(table);
    };
    auto one = make(1000);
    auto two = make(1000);
    REQUIRE(one.reserve(20'000, 0).ok());
    const auto refused = two.reserve(100'000, 0);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kLimit);
    CHECK_MESSAGE(contains(refused.error().text(),
                           "the tables of user 1000 would take more than the 4 MiB that those of one user "
                           "may: raise quota_table_mib"),
                  refused.error().text());
    CHECK(tables.budget().used() <= 4 * kMiB);
    // Another has a part of his own, as long as there is something of the whole.
    auto other = make(1001);
    CHECK(other.reserve(20'000, 0).ok());
    auto root = make(0);
    const auto full = root.reserve(200'000, 0);
    REQUIRE_FALSE(full.ok());
    CHECK_MESSAGE(contains(full.error().text(), "the tables of this agent would take more than 8 MiB"),
                  full.error().text());
    {
        ResultTable gone(std::move(one));
    }
    {
        ResultTable gone(std::move(other));
    }
    CHECK(two.reserve(20'000, 0).ok());
    {
        ResultTable gone(std::move(two));
    }
    CHECK(root.reserve(40'000, 0).ok());
    {
        ResultTable gone(std::move(root));
    }
    CHECK(tables.budget().used() == 0);
}

TEST_CASE("what is kept for a user, or what his applications hold, is of his part until it goes") {
    AgentCounters counters;
    MemfdTables tables(64 * kMiB, 4 * kMiB, &counters);
    std::shared_ptr<const SealedTable> kept;
    std::vector<std::optional<std::uint32_t>> asked;
    tables.set_reclaim([&](std::optional<std::uint32_t> user) {
        asked.push_back(user);
        return asked.size() == 2 && std::exchange(kept, nullptr) != nullptr;
    });
    kept = sealed_table(tables, 30'000, 1000);
    auto table = ResultTable::create(tables.make_memory(1000), Op::kSum);
    REQUIRE(table.ok());
    CHECK_FALSE(table->reserve(40'000, 0).ok());
    CHECK(table->reserve(40'000, 0).ok());
    CHECK(asked == std::vector<std::optional<std::uint32_t>>{1000, 1000});
    auto mine = ResultTable::create(tables.make_memory(1002), Op::kSum);
    REQUIRE(mine.ok());
    auto his = sealed_table(tables, 30'000, 1002);
    UniqueFd slots(::fcntl(his->descriptors().at(0), F_DUPFD_CLOEXEC, 0));
    his.reset();
    CHECK_FALSE(mine->reserve(40'000, 0).ok());
    slots.reset();
    CHECK(mine->reserve(40'000, 0).ok());
}

TEST_CASE("so many blocks may be held, and no more: each takes a descriptor") {
    AgentCounters counters;
    MemfdTables tables(1024 * kMiB, 1024 * kMiB, &counters);
    MemoryBudget& budget = tables.budget();
    auto sealed = sealed_table(tables, 1);
    const UniqueFd slots(::fcntl(sealed->descriptors().at(0), F_DUPFD_CLOEXEC, 0));
    // As many descriptions of one file do for as many files.
    const std::string path = "/proc/self/fd/" + std::to_string(slots.get());
    rlimit room{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &room) == 0);
    room.rlim_cur = std::max<rlim_t>(room.rlim_cur, MemoryBudget::kMostHeld + 256);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &room) == 0);
    for (std::size_t i = 0; i < MemoryBudget::kMostHeld; ++i) {
        UniqueFd own(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        REQUIRE(own);
        budget.give_up(std::move(own), 0, nullptr);
    }
    CHECK_FALSE(budget.reserve(1));
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

TEST_CASE("a table that can never be had is known by its keys, whatever other tables have") {
    constexpr std::uint32_t kUser = 1000;
    constexpr std::size_t kMib = std::size_t{1} << 20U;
    AgentCounters counters;
    MemfdTables tables(8 * kMib, 2 * kMib, &counters);
    // A block of slots for so many keys is 1 MiB, for one more 2.
    constexpr std::uint64_t kKeys = 32768 / 16 * 11;
    CHECK(tables.check_room(kUser, kKeys, 500'000).ok());
    CHECK(tables.check_room(kUser, 0, 0).ok());
    const auto user = tables.check_room(kUser, kKeys + 1, 500'000);
    REQUIRE_FALSE(user.ok());
    CHECK(user.error().code() == Errc::kLimit);
    CHECK(user.error().text().find("quota_table_mib") != std::string::npos);
    CHECK(tables.check_room(0, kKeys + 1, 500'000).ok());
    const auto all = tables.check_room(0, 4 * kKeys, 5 * kMib);
    REQUIRE_FALSE(all.ok());
    CHECK(all.error().text().find("table_limit_mib") != std::string::npos);
    CHECK_FALSE(tables.check_room(0, UINT64_MAX, UINT64_MAX / 2).ok());
}

TEST_CASE("tables with a grant stay within it, and nothing else is asked of the budget") {
    MemfdTables tables(64 * kMiB, 64 * kMiB, nullptr);
    auto grant = tables.grant(1000, 4 * kMiB);
    REQUIRE(grant.ok());
    CHECK(tables.budget().used() == 4 * kMiB);
    auto table = ResultTable::create(tables.make_memory(*grant, 2 * kMiB), Op::kSum);
    REQUIRE(table.ok());
    int keys = 0;
    while (table->add("key-" + std::to_string(keys), 1).ok()) {
        REQUIRE(++keys < 100000);
    }
    // It has grown as far as its share goes, with the table that it grows from.
    CHECK(keys > 10000);
    CHECK((*grant)->most() <= 2 * kMiB);
    CHECK((*grant)->most() > kMiB);
    CHECK(tables.budget().used() == 4 * kMiB);
    table->finish_wide();
    auto part = tables.seal(*std::move(table));
    REQUIRE(part.ok());
    // Handed over, it counts until whoever has it lets go, though the agent has.
    UniqueFd held(::fcntl((*part)->descriptors().at(0), F_DUPFD_CLOEXEC, 0));
    REQUIRE(held);
    const std::size_t part_bytes = (*part)->bytes();
    REQUIRE(part_bytes > kMiB);
    *part = nullptr;
    CHECK_FALSE((*grant)->take(4 * kMiB));
    held.reset();
    tables.budget().look_at_held();
    CHECK((*grant)->take(4 * kMiB));
    (*grant)->give(4 * kMiB);
    *grant = nullptr;
    CHECK(tables.budget().used() == 0);
}

TEST_CASE("a grant that is too much is refused, and one that is held outlives its task") {
    MemfdTables tables(8 * kMiB, 4 * kMiB, nullptr);
    CHECK(tables.grant(1000, 5 * kMiB).error().code() == Errc::kLimit);
    CHECK(tables.budget().used() == 0);
    auto grant = tables.grant(1000, 4 * kMiB);
    REQUIRE(grant.ok());
    auto table = ResultTable::create(tables.make_memory(*grant, 4 * kMiB), Op::kSum);
    REQUIRE(table.ok());
    *grant = nullptr;
    auto part = tables.seal(*std::move(table));
    REQUIRE(part.ok());
    UniqueFd held(::fcntl((*part)->descriptors().at(0), F_DUPFD_CLOEXEC, 0));
    *part = nullptr;
    CHECK(tables.budget().used() == 4 * kMiB);
    held.reset();
    tables.budget().look_at_held();
    CHECK(tables.budget().used() == 0);
}
