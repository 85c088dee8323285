// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/kept_results.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "agent/memfd_table.h"
#include "lib/control/receive/registry.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::size_t kOneMiB = 1U << 20U;

struct KeptFixture {
    AgentCounters counters;
    MemfdTables tables{64 * kOneMiB, 56 * kOneMiB, &counters};
    MemoryBudget& budget = tables.budget();
    KeptResults kept{std::chrono::seconds(3600), &counters};

    std::shared_ptr<KeptResult> result(const std::string& id, std::uint64_t instance = 1) {
        auto made = std::make_shared<KeptResult>();
        made->task.set_id(id);
        made->task.set_instance(instance);
        made->mailbox = std::make_shared<Mailbox>();
        auto table = ResultTable::create(tables.make_memory(0), Op::kSum);
        REQUIRE(table.ok());
        REQUIRE(table->add("key", 1).ok());
        REQUIRE(table->finish().ok());
        auto sealed = tables.seal(std::move(*table));
        REQUIRE(sealed.ok());
        made->table = std::move(*sealed);
        kept.keep(made);
        return made;
    }
    [[nodiscard]] std::uint64_t count(AgentCounter counter) const { return counters.get(counter); }
};

}  // namespace

TEST_CASE("a kept result is handed out once, and gone when it was taken") {
    KeptFixture fixture;
    fixture.result("a", 1);
    const auto newer = fixture.result("a", 2);
    REQUIRE(fixture.kept.describe().size() == 2);
    CHECK(fixture.kept.describe()[0].state().starts_with("kept until "));
    auto out = fixture.kept.hand_out("a", 0);
    REQUIRE(out.ok());
    CHECK(*out == newer);
    const auto second = fixture.kept.hand_out("a", 0);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code() == Errc::kExists);
    SUBCASE("in time: its session hears of it, and its senders succeed") {
        CHECK(fixture.kept.taken(*out));
        CHECK(fixture.kept.stop_waiting(*newer) == KeptResult::State::kTaken);
    }
    SUBCASE("after its senders were told") {
        CHECK(fixture.kept.stop_waiting(*newer) == KeptResult::State::kHandedOut);
        CHECK_FALSE(fixture.kept.taken(*out));
    }
    REQUIRE(fixture.kept.describe().size() == 1);
    CHECK(fixture.kept.describe()[0].instance() == 1);
}

TEST_CASE("whoever takes a result hears of it in its session's mailbox") {
    KeptFixture fixture;
    const auto result = fixture.result("a");
    const auto mailbox = result->mailbox;
    REQUIRE(fixture.kept.hand_out("a", 0).ok());
    CHECK(fixture.kept.taken(result));
    await(*mailbox, SessionEvent::Kind::kChanged);
}

TEST_CASE("a result that --again did not take is there for the next") {
    KeptFixture fixture;
    const auto result = fixture.result("a");
    REQUIRE(fixture.kept.hand_out("a", 0).ok());
    fixture.kept.put_back(result);
    CHECK(fixture.kept.hand_out("a", 0).ok());
    const auto unknown = fixture.kept.hand_out("b", 0);
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().code() == Errc::kUnknown);
    CHECK(unknown.error().text().find("kept: a until 20") != std::string::npos);
}

TEST_CASE("kept results are bounded in number: the oldest that nobody waits for goes") {
    KeptFixture fixture;
    const auto waited_for = fixture.result("first");
    const auto told = fixture.result("told");
    static_cast<void>(fixture.kept.stop_waiting(*told));
    for (std::size_t i = 2; i < KeptResults::kMost; ++i) {
        fixture.result("more");
    }
    CHECK(fixture.count(AgentCounter::k_drop_kept_number) == 0);
    fixture.result("newest");
    CHECK(fixture.count(AgentCounter::k_drop_kept_number) == 1);
    CHECK(fixture.kept.look(*told).state == KeptResult::State::kDropped);
    CHECK(fixture.kept.look(*waited_for).state == KeptResult::State::kKept);
    // With nobody told, the oldest of all goes, and its session hears why its senders fail.
    fixture.result("newest of all");
    CHECK(fixture.kept.stop_waiting(*waited_for) == KeptResult::State::kDropped);
    CHECK(fixture.kept.describe().size() == KeptResults::kMost);
}

TEST_CASE(
    "memory goes to tasks before results that nobody waits for, and never one that is waited for or taken") {
    KeptFixture fixture;
    const auto waited_for = fixture.result("waited-for");
    const auto taken = fixture.result("taken");
    static_cast<void>(fixture.kept.stop_waiting(*taken));
    REQUIRE(fixture.kept.hand_out("taken", 0).ok());
    auto told = fixture.result("told");
    static_cast<void>(fixture.kept.stop_waiting(*told));
    told.reset();
    const std::size_t used = fixture.budget.used();
    fixture.budget.set_reclaim([&] { return fixture.kept.make_room(); });
    REQUIRE(fixture.budget.reserve(fixture.budget.limit() - used));
    CHECK(fixture.count(AgentCounter::k_drop_kept_memory) == 0);
    CHECK(fixture.budget.reserve(1));
    CHECK(fixture.count(AgentCounter::k_drop_kept_memory) == 1);
    CHECK_FALSE(fixture.budget.reserve(fixture.budget.limit()));
    CHECK(fixture.kept.describe().size() == 2);
}

TEST_CASE("room for a user's task is made of his own results") {
    KeptFixture fixture;
    for (const std::uint32_t user : {1000U, 1001U}) {
        const auto result = fixture.result("of-" + std::to_string(user));
        result->task.set_user(user);
        static_cast<void>(fixture.kept.stop_waiting(*result));
    }
    CHECK_FALSE(fixture.kept.make_room(1002));
    CHECK(fixture.kept.make_room(1001));
    CHECK_FALSE(fixture.kept.make_room(1001));
    REQUIRE(fixture.kept.describe().size() == 1);
    CHECK(fixture.kept.describe().front().id() == "of-1000");
    CHECK(fixture.kept.make_room());
}

TEST_CASE("time is over only for results whose senders have been told") {
    AgentCounters counters;
    KeptResults kept(std::chrono::seconds(0), &counters);
    const auto result = std::make_shared<KeptResult>();
    result->task.set_id("a");
    kept.keep(result);
    kept.forget_old();
    CHECK(kept.describe().size() == 1);
    static_cast<void>(kept.stop_waiting(*result));
    kept.forget_old();
    CHECK(kept.describe().empty());
    CHECK(counters.get(AgentCounter::k_drop_kept_expired) == 1);
}

TEST_CASE("a kept result is its user's, and root's: to others it is as one that is not there") {
    KeptFixture fixture;
    const auto alices = fixture.result("a", 1);
    alices->task.set_user(1000);
    const auto others = fixture.kept.hand_out("a", 1001);
    REQUIRE_FALSE(others.ok());
    CHECK(others.error().code() == Errc::kUnknown);
    CHECK(others.error().text() == "no result of task a is kept here; kept: none");
    // A newer one of another user's is not in the way.
    fixture.result("a", 2)->task.set_user(1001);
    auto out = fixture.kept.hand_out("a", 1000);
    REQUIRE(out.ok());
    CHECK(*out == alices);
    fixture.kept.put_back(*out);
    REQUIRE(fixture.kept.hand_out("a", 0).ok());
}
