// SPDX-License-Identifier: Apache-2.0
//
// In which order a relay does what it does, and whom it tells: T1 and T3 of docs/trees.md.
#include "lib/control/relay/relayed.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/runtime.h"
#include "lib/control/relay/relays.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/types.h"

using namespace ask;

namespace {

using Item = std::pair<std::string, Wide>;

// What happens at the two sessions, in its order, and what they are to answer.
struct Stage {
    std::vector<std::vector<Item>> tables{{{"a", 1}}};
    bool below_cannot_repeat = false;
    std::optional<Errc> below_fails;
    std::optional<Errc> above_fails;
    std::optional<std::string> below_error;  // what it says of somebody who never came
    bool above_waits = false;                // to be joined
    bool holds = false;                      // the receive waits until it is cancelled
    bool kept = false;                       // by the agent, which has not given it back before let_go()

    void note(std::string what) {
        const Guard lock(mutex);
        log.push_back(std::move(what));
    }
    std::vector<std::string> events() {
        const Guard lock(mutex);
        return log;
    }
    void cancel() {
        {
            const Guard lock(mutex);
            cancelled = true;
        }
        changed.notify_all();
    }
    void await_cancel() {
        Lock lock(mutex);
        changed.wait(lock, [this] { return cancelled; });
    }

    void let_go() {
        {
            const Guard lock(mutex);
            kept = false;
        }
        changed.notify_all();
    }
    void await_let_go() {
        Lock lock(mutex);
        changed.wait(lock, [this] { return !kept; });
    }

    Mutex mutex;
    CondVar changed;
    std::vector<std::string> log;
    bool cancelled = false;
};

class Part final : public RelayTable {
 public:
    Part(std::vector<Item> items, bool last) : items_(std::move(items)), last_(last) {}
    [[nodiscard]] bool last() const override { return last_; }
    [[nodiscard]] std::uint64_t bytes_most() const override { return 0; }
    [[nodiscard]] std::vector<v1::FlowsFrom> flows() const override {
        v1::FlowsFrom from;
        from.set_relay("s4");
        from.set_finished(1);
        from.set_frame_bytes(600);
        return {from};
    }
    [[nodiscard]] Result<> each(const Visit& visit) const override {
        for (const auto& [key, value] : items_) {
            visit(key, value);
        }
        return {};
    }

 private:
    std::vector<Item> items_;
    bool last_;
};

class Below final : public RelayBelow {
 public:
    Below(Stage& stage, RelayHooks& hooks) : stage_(stage), hooks_(hooks) {}
    Result<v1::OpenRelayReply> open() override {
        stage_.note("open below");
        v1::OpenRelayReply reply;
        reply.set_switch_address("198.18.129.1:4792");
        return reply;
    }
    Result<std::unique_ptr<RelayTable>> next() override {
        RelayProgress now;
        now.cannot_repeat = stage_.below_cannot_repeat;
        hooks_.on_below(now);
        hooks_.on_below(now);
        if (stage_.holds) {
            stage_.await_cancel();
            return Error(Errc::kAborted, "cancelled");
        }
        if (stage_.below_error) {
            return Error(Errc::kDeadline, *stage_.below_error);
        }
        if (stage_.below_fails) {
            return Error(*stage_.below_fails, "below");
        }
        stage_.note("table");
        const std::size_t at = at_++;
        return std::unique_ptr<RelayTable>(
            std::make_unique<Part>(stage_.tables[at], at + 1 == stage_.tables.size()));
    }
    void taking(const std::string& /*waits_for*/) override {}
    void alive() override { stage_.note("alive below"); }
    [[nodiscard]] std::vector<std::string> lost_relays() const override { return {"s9"}; }
    void abandon(const Error& why) override { stage_.note("abandon below: " + why.text()); }
    Result<> confirm() override {
        stage_.note("confirm below");
        return {};
    }

 private:
    Stage& stage_;
    RelayHooks& hooks_;
    std::size_t at_ = 0;
};

class Above final : public RelayAbove {
 public:
    Above(Stage& stage, RelayHooks& hooks) : stage_(stage), hooks_(hooks) {}
    Result<> open() override {
        if (stage_.above_waits) {
            hooks_.on_above("");
        }
        stage_.note("open above");
        return {};
    }
    Result<> send(std::span<const Tuple> tuples) override {
        for (const Tuple& tuple : tuples) {
            stage_.note(std::string(tuple.key) + "=" + std::to_string(tuple.value));
        }
        return {};
    }
    Result<> flush() override { return {}; }
    Result<> cannot_repeat() override {
        stage_.note("cannot repeat");
        return {};
    }
    Result<> finish() override {
        stage_.note("finish");
        return stage_.above_fails ? Error(*stage_.above_fails, "above") : Result<>();
    }
    void abandon(const Error& why, const std::vector<std::string>& lost) override {
        stage_.note("abandon above: " + why.text() + " " + (lost.empty() ? "" : lost.front()));
    }

 private:
    Stage& stage_;
    RelayHooks& hooks_;
};

class Sessions final : public RelaySessions {
 public:
    Sessions(Stage& stage, RelayHooks hooks)
        : stage_(stage), hooks_(std::move(hooks)), below_(stage, hooks_), above_(stage, hooks_) {}
    RelayBelow& below() override { return below_; }
    RelayAbove& above() override { return above_; }
    void cancel() override { stage_.cancel(); }
    void close() override {
        stage_.await_let_go();
        stage_.note("closed");
    }

 private:
    Stage& stage_;
    RelayHooks hooks_;
    Below below_;
    Above above_;
};

MakeRelaySessions on(Stage& stage) {
    return [&stage](const v1::OpenRelayRequest& /*order*/, std::uint64_t /*reserve*/, RelayHooks hooks) {
        return std::unique_ptr<RelaySessions>(std::make_unique<Sessions>(stage, std::move(hooks)));
    };
}

v1::OpenRelayRequest order(std::uint64_t instance) {
    v1::OpenRelayRequest request;
    request.set_task_id("t");
    request.set_instance(instance);
    request.set_receiver("198.18.5.2:4791");
    request.set_op(v1::OPERATOR_SUM);
    request.set_deadline_ms(60'000);  // a third of it is how long a relay waits for an older run to end
    request.set_own_task_id("relayed-1");
    request.set_own_token("down");
    request.set_senders(2);
    *request.mutable_geometry() = geometry_to_proto({.short_slots = 4, .groups = 0, .m = 0, .rows = 1});
    request.set_parent("198.18.5.2:4791");
    request.set_parent_task_id("t");
    request.set_parent_token("up");
    request.set_name("s1");
    request.set_switch_address("198.18.129.1:4792");
    request.set_wait_ms(10'000);
    return request;
}

// All that it does, to its end.
std::vector<std::string> run(Stage& stage) {
    {
        Relayed relayed({.request = order(1), .owner = {}, .reserve_bytes = 0}, on(stage));
        while (!relayed.ended()) {
            yield_thread();
        }
    }
    return stage.events();
}

using Events = std::vector<std::string>;

}  // namespace

TEST_CASE("a relay opens below, joins above, sends its table once, and those below succeed last") {
    Stage stage;
    CHECK(run(stage) ==
          Events{"open below", "open above", "table", "a=1", "finish", "confirm below", "closed"});
}

TEST_CASE("a relay says what came to it once all is there") {
    Stage stage;
    Relayed relayed({.request = order(1), .owner = {}, .reserve_bytes = 0}, on(stage));
    while (!relayed.ended()) {
        yield_thread();
    }
    const v1::RelayedTask task = relayed.describe();
    REQUIRE(task.flows_size() == 1);
    CHECK(task.flows(0).relay() == "s4");
    CHECK(task.flows(0).frame_bytes() == 600);
}

TEST_CASE(
    "a relay whose agent has another switch than the plan's refuses by name, before it joins its parent") {
    Stage stage;
    v1::OpenRelayRequest other = order(1);
    other.set_switch_address("198.18.130.1:4792");
    Relayed relayed({.request = other, .owner = {}, .reserve_bytes = 0}, on(stage));
    const auto opened = relayed.await_open(Clock::now() + std::chrono::seconds(60));
    REQUIRE(opened);
    REQUIRE_FALSE(opened->ok());
    CHECK(opened->error().code() == Errc::kInput);
    CHECK(opened->error().text().starts_with(
        "relay s1: its agent's switch is 198.18.129.1:4792, and the plan has s1 at 198.18.130.1:4792: "));
    const Events events = stage.events();
    CHECK(std::ranges::find(events, "open above") == events.end());
}

TEST_CASE("a relay passes each of several tables on before it asks for the next") {
    Stage stage;
    stage.tables = {{{"a", 1}}, {{"a", 2}}, {{"b", 3}}};
    CHECK(run(stage) == Events{"open below", "open above", "table", "a=1", "table", "a=2", "table", "b=3",
                               "finish", "confirm below", "closed"});
}

TEST_CASE("a relay sends a sum that leaves int64 in pieces, and a zero as a zero") {
    constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
    Stage stage;
    stage.tables = {{{"a", 2 * kMost + 1}, {"b", 0}}};
    const std::string most = "a=" + std::to_string(std::numeric_limits<std::int64_t>::max());
    CHECK(run(stage) == Events{"open below", "open above", "table", most, most, "a=1", "b=0", "finish",
                               "confirm below", "closed"});
}

TEST_CASE("a relay that waits to join its parent shows those below that it is alive") {
    Stage stage;
    stage.above_waits = true;
    CHECK(run(stage) == Events{"open below", "alive below", "open above", "table", "a=1", "finish",
                               "confirm below", "closed"});
}

TEST_CASE("a relay tells nobody below of success when its parent has failed") {
    Stage stage;
    stage.above_fails = Errc::kSwitchLost;
    CHECK(run(stage) == Events{"open below", "open above", "table", "a=1", "finish", "abandon below: above",
                               "abandon above: above s9", "closed"});
}

TEST_CASE("what a relay says of who is missing names its task and the relay, and no id that was drawn") {
    Stage stage;
    stage.below_error = "task relayed-1: 1 of 2 senders joined within 5 s: only h3";
    const Events events = run(stage);
    CHECK(std::ranges::find(
              events, "abandon below: task t below relay s1: 1 of 2 senders joined within 5 s: only h3") !=
          events.end());
    CHECK(std::ranges::find(
              events, "abandon above: task t below relay s1: 1 of 2 senders joined within 5 s: only h3 s9") !=
          events.end());
}

TEST_CASE("a relay hands on which relays were lost below, and sends nothing") {
    Stage stage;
    stage.below_fails = Errc::kSwitchLost;
    CHECK(run(stage) ==
          Events{"open below", "open above", "abandon below: below", "abandon above: below s9", "closed"});
}

TEST_CASE("a relay whose child cannot repeat says so above, once, before it sends") {
    Stage stage;
    stage.below_cannot_repeat = true;
    CHECK(run(stage) == Events{"open below", "open above", "cannot repeat", "table", "a=1", "finish",
                               "confirm below", "closed"});
}

namespace {

// A relay with room for one task; its runs, by instance, each on a stage of its own.
struct OneRoom {
    std::map<std::uint64_t, Stage> runs;
    Caller caller = caller_from_peer("ipv4:198.18.5.2:40000");
    Relays relays{RelayLimits{.max_relays = 1,
                              .memory_bytes = 1U << 20U,
                              .reserve_bytes = 1U << 20U,
                              .quota_relays = 1,
                              .quota_memory_bytes = 1U << 20U},
                  [this](const v1::OpenRelayRequest& of, std::uint64_t reserve, RelayHooks hooks) {
                      return on(runs.at(of.instance()))(of, reserve, std::move(hooks));
                  }};

    ~OneRoom() {
        for (auto& [instance, stage] : runs) {
            stage.let_go();
        }
    }
    Stage& run(std::uint64_t instance) {
        Stage& stage = runs[instance];
        stage.holds = true;
        return stage;
    }
    // At once, whatever comes of it.
    Result<v1::OpenRelayReply> ask(std::uint64_t instance, std::uint32_t wait_ms = 0) {
        v1::OpenRelayRequest request = order(instance);
        request.set_wait_ms(wait_ms);
        return relays.open(caller, request);
    }
    void open(std::uint64_t instance) {
        const auto opened = ask(instance, 10'000);
        REQUIRE(opened.ok());
        REQUIRE_FALSE(opened->opening());
    }
    bool ends_up_with(std::uint64_t instance, const std::string& event) {
        const auto until = Clock::now() + std::chrono::seconds(60);
        const auto there = [&] {
            const Events events = runs.at(instance).events();
            return std::ranges::find(events, event) != events.end();
        };
        while (!there() && Clock::now() < until) {
            yield_thread();
        }
        return there();
    }
};

}  // namespace

TEST_CASE("a newer instance of a task ends the older one at a relay, which tells those below") {
    OneRoom room;
    room.run(1);
    room.run(2);
    room.open(1);
    CHECK(room.relays.size() == 1);
    room.open(2);
    CHECK(room.relays.counts().replaced == 1);
    CHECK(room.ends_up_with(1, "abandon below: the task was opened again by its receiver"));
    CHECK(room.runs.at(2).events() == Events{"open below", "open above"});
}

TEST_CASE(
    "a newer instance is opened once the agent has given back what the older one had, and in its room") {
    OneRoom room;
    room.run(1).kept = true;
    room.run(2);
    room.open(1);
    const auto early = room.ask(2);
    REQUIRE(early.ok());
    CHECK(early->opening());
    CHECK(room.ends_up_with(1, "abandon above: the task was opened again by its receiver s9"));
    // The receiver asks again and again.
    CHECK(room.ask(2, 20)->opening());
    CHECK(room.runs.at(2).events().empty());
    CHECK(room.relays.size() == 1);
    CHECK(room.relays.reserved_bytes() == 1U << 20U);
    room.run(1).let_go();
    room.open(2);
    CHECK(room.runs.at(2).events() == Events{"open below", "open above"});
}

TEST_CASE("what ended by itself keeps its room until the agent has given it back") {
    OneRoom room;
    Stage& first = room.run(1);
    first.kept = true;
    first.holds = false;
    first.below_fails = Errc::kSwitchLost;
    room.run(2);
    [[maybe_unused]] const auto opened = room.ask(1, 10'000);
    CHECK(room.ends_up_with(1, "abandon above: below s9"));
    room.relays.tick();
    CHECK(room.relays.size() == 1);
    CHECK(room.ask(2)->opening());
    first.let_go();
    room.open(2);
}

TEST_CASE("an instance that is replaced while it waits for the older one opens nothing") {
    OneRoom room;
    room.run(1).kept = true;
    room.run(2);
    room.run(3);
    room.open(1);
    CHECK(room.ask(2)->opening());
    CHECK(room.ask(3)->opening());
    CHECK(room.ends_up_with(2, "closed"));
    room.run(1).let_go();
    room.open(3);
    CHECK(room.runs.at(2).events() == Events{"closed"});
    const auto late = room.ask(2);
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code() == Errc::kAborted);
}

TEST_CASE("a relay whose agent keeps an older instance says so in time, and lets nobody add to it") {
    OneRoom room;
    v1::OpenRelayRequest hasty = order(2);
    hasty.set_deadline_ms(1000);
    room.run(1).kept = true;
    room.run(2);
    room.open(1);
    const auto late = room.relays.open(room.caller, hasty);
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code() == Errc::kDeadline);
    CHECK(
        late.error().text() ==
        "relay s1: an older run of task t has not ended there within 333 ms: its agent or its switch hangs");
    const auto until = Clock::now() + std::chrono::seconds(60);
    while (room.relays.counts().failed == 0 && Clock::now() < until) {
        room.relays.tick();
        yield_thread();
    }
    REQUIRE(room.relays.counts().failed > 0);
    // Those that are kept are threads of this relay's.
    for (std::uint64_t instance = 3; instance < 9; ++instance) {
        room.run(instance).kept = true;
        const auto more = room.ask(instance);
        CHECK(room.relays.size() == 1);
        if (!more) {
            CHECK(more.error().code() == Errc::kLimit);
            CHECK(more.error().text().find("3 older runs of it are ending here still") != std::string::npos);
        }
        CHECK(more.ok() == (instance < 5));
    }
}
