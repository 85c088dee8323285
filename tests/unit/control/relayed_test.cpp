// SPDX-License-Identifier: Apache-2.0
//
// In which order a relay does what it does, and whom it tells: T1 and T3 of docs/trees.md.
#include "lib/control/relay/relayed.h"

#include <algorithm>
#include <chrono>
#include <limits>
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
    void close() override { stage_.note("closed"); }

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
    request.set_deadline_ms(5000);
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

TEST_CASE("a newer instance of a task ends the older one at a relay, which tells those below") {
    Stage older;
    Stage newer;
    older.holds = newer.holds = true;
    RelayLimits limits;
    limits.memory_bytes = 1U << 30U;
    limits.reserve_bytes = 1U << 20U;
    Relays relays(limits, [&](const v1::OpenRelayRequest& of, std::uint64_t reserve, RelayHooks hooks) {
        return on(of.instance() == 1 ? older : newer)(of, reserve, std::move(hooks));
    });
    const Caller caller = caller_from_peer("ipv4:198.18.5.2:40000");
    REQUIRE(relays.open(caller, order(1)).ok());
    CHECK(relays.size() == 1);
    REQUIRE(relays.open(caller, order(2)).ok());
    CHECK(relays.counts().replaced == 1);
    const auto told = [&older] {
        const Events events = older.events();
        return std::ranges::find(events, "abandon below: the task was opened again by its receiver") !=
               events.end();
    };
    const auto until = Clock::now() + std::chrono::seconds(60);
    while (!told() && Clock::now() < until) {
        yield_thread();
    }
    CHECK(told());
    CHECK(newer.events() == Events{"open below", "open above"});
}
