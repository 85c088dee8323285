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

// h1 is at s4, h2 at s5, both below s2, which is below s1: two sends and three; s5 and s1 aggregate.
v1::AgentStatus placed_status() {
    v1::AgentStatus status = receiving("committed");
    v1::AgentTask& task = *status.mutable_tasks(0);
    task.set_instance(7);
    v1::Placement& plan = *task.mutable_placement();
    const auto relay = [&](const std::string& name, const std::string& address, const std::string& parent) {
        v1::PlacedRelay& entry = *plan.add_relays();
        entry.set_name(name);
        entry.set_address(address);
        entry.set_parent(parent);
        v1::RelayOfTask& shown = *task.add_relays();
        shown.set_name(name);
        shown.set_address(address);
    };
    relay("s1", "198.18.129.2:4793", "");
    relay("s5", "198.18.133.2:4793", "s1");
    const auto host = [&](const std::string& name, const std::string& address, const std::string& at,
                          const std::string& entry_at) {
        v1::PlacedHost& entry = *plan.add_hosts();
        entry.set_name(name);
        entry.set_address(address);
        entry.set_at(at);
        entry.set_entry(entry_at);
    };
    host("h1", "198.18.1.2", "s4", "s1");
    host("h2", "198.18.2.2", "s5", "s5");
    const auto link = [&](const std::string& from, const std::string& to, std::uint64_t messages,
                          double bytes) {
        v1::PlacedLink& entry = *plan.add_links();
        entry.set_from(from);
        entry.set_to(to);
        entry.set_messages(messages);
        entry.set_bytes(bytes);
    };
    link("s1", "h9", 1, 500);
    link("s2", "s1", 3, 2600.4);
    link("s4", "s2", 2, 1800);
    link("s5", "s2", 1, 0);
    v1::FlowsFrom& flows = *task.add_flows();
    flows.set_relay("s1");
    flows.set_finished(1);
    flows.set_frame_bytes(510);
    return status;
}

RelayAnswer relay_answer(const std::string& address, std::vector<v1::FlowsFrom> flows) {
    v1::RelayStatus status;
    // Of another task, whose flows are none of this one's.
    v1::RelayedTask& other = *status.add_relays();
    other.set_instance(8);
    other.add_flows()->set_finished(99);
    v1::RelayedTask& part = *status.add_relays();
    part.set_instance(7);
    part.set_state(flows.empty() ? "receiving" : "committed");
    part.mutable_flows()->Add(flows.begin(), flows.end());
    return {"", address, status};
}

v1::FlowsFrom came(std::uint32_t host, const std::string& relay, std::uint32_t flows, std::uint64_t bytes) {
    v1::FlowsFrom from;
    from.set_host(host);
    from.set_relay(relay);
    from.set_finished(flows);
    from.set_frame_bytes(bytes);
    return from;
}

std::vector<RelayAnswer> all_came() {
    return {
        relay_answer("198.18.129.2:4793", {came(0xc6120102, "", 2, 1700), came(0xc6128502, "s5", 1, 900)}),
        relay_answer("198.18.133.2:4793", {came(0xc6120202, "", 3, 4000)})};
}

TEST_CASE("what crossed each link of a plan stands beside what was planned") {
    const auto text = explain_task("wordcount", {placed_status(), std::nullopt, "", all_came()});
    REQUIRE(text.ok());
    CHECK_MESSAGE(has(*text,
                      "Link      flows planned  counted  bytes planned  counted\n"
                      "s5 -> s2              1        1              -      900\n"
                      "s4 -> s2              2        2          1,800    1,700\n"
                      "s2 -> s1              3        3          2,600    2,600\n"
                      "s1 -> h9              1        1            500      510\n"
                      "all                   7        7              -    5,710\n"),
                  *text);
    CHECK_FALSE(has(*text, "Not counted"));
    CHECK_FALSE(has(*text, "sent again"));
    const auto json = explain_task_json("wordcount", {placed_status(), std::nullopt, "", all_came()});
    REQUIRE(json.ok());
    const Json& crossed = (*json)["here"][0]["crossed"];
    REQUIRE(crossed["links"].size() == 4);
    CHECK(crossed["links"][0]["bytes_planned"].is_null());
    CHECK(crossed["links"][2]["flows"] == 3);
    CHECK(crossed["links"][2]["frame_bytes"] == 2600);
    CHECK(crossed["unknown"].empty());
    CHECK((*json)["here"][0]["flows"][0]["relay"] == "s1");
}

TEST_CASE("packets that were sent again are no bytes of the plan's, and are said") {
    auto answers = all_came();
    answers[1].status->mutable_relays(1)->mutable_flows(0)->set_retransmissions(4);
    answers[0].status->mutable_relays(1)->mutable_flows(0)->set_retransmissions(1000);
    const auto text = explain_task("wordcount", {placed_status(), std::nullopt, "", answers});
    REQUIRE(text.ok());
    // h1's cross two links, and h2's none.
    CHECK_MESSAGE(has(*text, "Not among these bytes: 2,000 times a packet was sent again"), *text);
}

TEST_CASE("what a relay cannot say is not guessed") {
    auto answers = all_came();
    // One that still takes in: what comes to it crosses links below it, and what it sends on is counted
    // above.
    answers[0] = relay_answer("198.18.129.2:4793", {});
    answers[1].status = Error(Errc::kUnavailable, "the relay at 198.18.133.2:4793 is away");
    const auto text = explain_task("wordcount", {placed_status(), std::nullopt, "", answers});
    REQUIRE(text.ok());
    CHECK_MESSAGE(has(*text,
                      "s5 -> s2              1        -              -        -\n"
                      "s4 -> s2              2        -          1,800        -\n"
                      "s2 -> s1              3        -          2,600        -\n"
                      "s1 -> h9              1        1            500      510\n"
                      "all                   7        -              -        -\n"),
                  *text);
    CHECK(
        has(*text, "Not counted: relay s1 knows once all that come to it have finished: it is receiving.\n"));
    CHECK(has(*text, "Not counted: relay s5: the relay at 198.18.133.2:4793 is away.\n"));
    answers[1].status = v1::RelayStatus();
    CHECK(has(*explain_task("wordcount", {placed_status(), std::nullopt, "", answers}),
              "relay s5 knows nothing of the task any more"));
    // A plan of an older ask-plan.
    v1::AgentStatus status = placed_status();
    status.mutable_tasks(0)->mutable_placement()->mutable_hosts(0)->clear_at();
    const auto old = explain_task("wordcount", {status, std::nullopt, "", all_came()});
    CHECK(has(*old, "s1 -> h9              1        -            500        -\n"));
    CHECK(has(*old, "does not say at which switches its hosts are"));
    status.mutable_tasks(0)->mutable_placement()->clear_links();
    CHECK_FALSE(has(*explain_task("wordcount", {status, std::nullopt, "", all_came()}), "flows planned"));
    CHECK(placed_task("wordcount", status) == nullptr);
    status = placed_status();
    CHECK(placed_task("wordcount", status) == &status.tasks(0));
    CHECK(placed_task("other", status) == nullptr);
}

}  // namespace
}  // namespace ask::cli
