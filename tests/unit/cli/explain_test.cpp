// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/explain.h"

#include <doctest/doctest.h>

namespace ask::cli {
namespace {

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

v1::AgentStatus receiving(const std::string& state) {
    v1::AgentStatus status;
    v1::AgentTask& task = *status.add_tasks();
    task.set_id("wordcount");
    task.set_role("receiver");
    task.set_state(state);
    task.set_op(v1::OPERATOR_COUNT);
    task.set_senders_expected(3);
    task.add_senders_joined("h1 (198.18.1.2)");
    task.add_senders_joined("h2 (198.18.2.2)");
    task.add_senders_finished("h1 (198.18.1.2)");
    task.set_aggregators(1024);
    task.mutable_stats()->set_tuples_in(1000);
    task.mutable_stats()->set_tuples_merged(200);
    task.mutable_stats()->set_tuples_sent(800);
    task.mutable_stats()->set_tuples_data(90);
    task.mutable_stats()->set_tuples_long(10);
    return status;
}

v1::SwitchStatus switching() {
    v1::SwitchStatus status;
    v1::SwitchTask& task = *status.add_tasks();
    task.set_id("wordcount");
    task.mutable_geometry()->set_short_slots(16);
    task.mutable_geometry()->set_groups(8);
    task.mutable_geometry()->set_m(2);
    task.mutable_geometry()->set_rows(4);
    task.set_aggregators(1024);
    task.set_flows(2);
    task.set_phase("blank");
    task.mutable_stats()->set_tuples_switch(700);
    task.mutable_stats()->set_tuples_collision(90);
    return status;
}

TEST_CASE("a running task: what it waits for, where its tuples went, and why") {
    auto text = explain_task("wordcount", {receiving("streaming"), switching(), ""});
    REQUIRE(text.ok());
    CHECK(has(*text, "operator count, streaming"));
    CHECK(has(*text, "2 of 3 joined (h1 (198.18.1.2), h2 (198.18.2.2)), 1 finished (h1 (198.18.1.2))"));
    CHECK(has(*text, "It waits for 1 more sender(s) to join, and h2 (198.18.2.2) to finish."));
    CHECK(has(*text, "16+8x2*4"));
    CHECK(has(*text, "1,024 aggregators"));
    CHECK(has(*text, "handed in by senders      1,000"));
    CHECK(has(*text, "aggregated on the switch    700  87.5 %"));
    CHECK(has(*text, "  collision                  90  11.2 %  another key held the aggregator"));
    CHECK_FALSE(has(*text, "several CPUs"));
}

TEST_CASE("what a back level left is told, and why") {
    v1::SwitchStatus status = switching();
    v1::FlowStats& stats = *status.mutable_tasks(0)->mutable_stats();
    stats.set_tuples_collision(0);
    stats.set_tuples_back(40);
    stats.set_tuples_back_full(60);
    stats.set_tuples_back_contention(30);
    const auto text = explain_task("wordcount", {receiving("streaming"), status, ""});
    REQUIRE(text.ok());
    CHECK(has(*text, "  back_full                  60   7.5 %  the back level had no place"));
    CHECK(has(*text, "a larger back_mib at the switch"));
    CHECK(
        has(*text, "  back_contention            30   3.8 %  several CPUs of the switch were at one entry"));
}

TEST_CASE("of a task on senders' own switches each is told, and who goes without") {
    auto status = receiving("streaming");
    v1::AgentTask& task = *status.mutable_tasks(0);
    task.set_own_switches(true);
    task.set_aggregators(2048);
    task.mutable_stats()->set_tuples_switch(300);
    task.mutable_stats()->set_tuples_collision(100);
    for (const char* const name : {"h1", "h2"}) {
        v1::SwitchOfTask& at = *task.add_switches();
        at.set_address("s-" + std::string(name) + ":4792");
        at.add_senders(name);
        at.set_aggregators(1024);
        at.set_tuples(150);
    }
    v1::SwitchOfTask& full = *task.add_switches();
    full.set_address("s-h3:4792");
    full.set_note("4 KiB are left");
    v1::SenderWithout& without = *task.add_without();
    without.set_sender("h4");
    without.set_reason("it has no switch configured");
    const auto text = explain_task("wordcount", {status, switching(), ""});
    REQUIRE(text.ok());
    CHECK(has(*text, "Each sender's own switch is to aggregate for it: it is open on 3."));
    CHECK(has(*text, "Switch s-h2:4792 aggregates for h2: 1,024 aggregators per array, 150 tuples."));
    CHECK(has(*text, "Switch s-h3:4792 aggregates nothing for no sender yet: 4 KiB are left."));
    CHECK(has(*text, "No switch aggregates for h4: it has no switch configured."));
    // This host's own switch is one of them, and its counts are not the task's.
    CHECK(has(*text, "aggregated on the switch    300"));
    CHECK(has(*text, "more --aggregators than 1024"));
    const auto json = explain_task_json("wordcount", {status, switching(), ""});
    REQUIRE(json.ok());
    CHECK((*json)["here"][0]["switches"][0]["senders"][0] == "h1");
    CHECK((*json)["here"][0]["without"][0]["reason"] == "it has no switch configured");
}

TEST_CASE("without a switch everything is no_region, and the task says why") {
    auto status = receiving("committed");
    status.mutable_tasks(0)->set_aggregators(0);
    status.mutable_tasks(0)->set_note("opened with --no-switch");
    auto text = explain_task("wordcount", {status, std::nullopt, ""});
    REQUIRE(text.ok());
    CHECK(has(*text, "It waits for nothing: it is committed."));
    CHECK(has(*text, "No switch aggregates for it: opened with --no-switch."));
    CHECK(has(*text, "no region                  90"));
}

TEST_CASE("a switch alone tells its part; trouble with it is told") {
    auto alone = explain_task("wordcount", {std::nullopt, switching(), ""});
    REQUIRE(alone.ok());
    CHECK(has(*alone, "aggregated on the switch  700"));
    auto trouble = explain_task("wordcount", {receiving("streaming"), std::nullopt, "cannot be reached"});
    REQUIRE(trouble.ok());
    CHECK(has(*trouble, "The switch could not be asked: cannot be reached."));
}

TEST_CASE("an unknown task is an error that says where to look") {
    auto text = explain_task("other", {receiving("streaming"), switching(), ""});
    REQUIRE_FALSE(text.ok());
    CHECK(text.error().code() == Errc::kUnknown);
    CHECK(has(text.error().text(), "askctl tasks"));
}

TEST_CASE("a task that has ended is still explained, and as JSON") {
    v1::AgentStatus status = receiving("failed");
    v1::AgentTask& ended = *status.add_ended();
    ended = status.tasks(0);
    ended.set_error("sender h1 gave up: in.tsv:2:4: no TAB");
    ended.set_ended_seconds_ago(5);
    status.clear_tasks();
    const auto text = explain_task("wordcount", {status, std::nullopt, ""});
    REQUIRE(text.ok());
    CHECK(has(*text, "It waits for nothing: it has failed, 5"));
    CHECK(has(*text, "What went wrong: sender h1 gave up: in.tsv:2:4: no TAB."));
    const auto json = explain_task_json("wordcount", {status, switching(), ""});
    REQUIRE(json.ok());
    CHECK((*json)["here"][0]["error"] == ended.error());
    CHECK((*json)["here"][0]["tuples"][0]["what"] == "handed in by senders");
    CHECK((*json)["here"][0]["tuples"][0]["tuples"] == 1000);
    CHECK((*json)["switch"]["aggregators"] == 1024);
    CHECK(explain_task_json("other", {status, std::nullopt, ""}).error().code() == Errc::kUnknown);
}

}  // namespace
}  // namespace ask::cli
