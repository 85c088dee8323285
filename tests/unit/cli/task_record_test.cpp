// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/task_record.h"

#include <doctest/doctest.h>

namespace ask::cli {
namespace {

bool shows(const Result<std::string>& text, std::string_view part) {
    return text.ok() && text->find(part) != std::string::npos;
}

v1::AgentTask& add_part(v1::AgentTask& task, const std::string& role, std::uint64_t instance) {
    task.set_id("words");
    task.set_role(role);
    task.set_instance(instance);
    task.set_op(v1::OPERATOR_SUM);
    task.set_state("streaming");
    task.set_age_seconds(3);
    return task;
}

TEST_CASE("the record of a task under way, by its receiver's agent") {
    v1::AgentStatus status;
    v1::AgentTask& task = add_part(*status.add_tasks(), "receiver", 7);
    status.add_tasks()->set_id("another");
    task.set_senders_expected(2);
    task.add_senders_joined("h1");
    task.set_geometry_reason("the sample's best");
    task.set_aggregators(1024);
    task.mutable_stats()->set_tuples_in(1000);
    task.mutable_stats()->set_tuples_back_full(3);
    const auto text = task_record_text("words", status);
    CHECK(shows(text, "words, instance 0x0000000000000007"));
    CHECK(shows(text, "open for  3.0 s"));
    CHECK(shows(text, "joined    1 (h1)"));
    CHECK(shows(text, "switch    1,024 aggregators per array, no back level"));
    CHECK(shows(text, "tuples_in         1,000  tuples handed in"));
    CHECK(shows(text, "tuples_back_full      3  the back level had no place"));
    CHECK_FALSE(shows(text, "another"));
    CHECK_FALSE(shows(text, "tuples_sent"));
    const auto json = task_record_json("words", status);
    REQUIRE(json.ok());
    CHECK(json->size() == 1);
    CHECK((*json)[0]["stats"]["tuples_back_full"] == 3);
}

TEST_CASE("a task that has ended is shown once, behind another of its name and this host's send") {
    v1::AgentStatus status;
    add_part(*status.add_tasks(), "receiver", 9);
    add_part(*status.add_tasks(), "sender", 9).set_peer("h3");
    add_part(*status.add_tasks(), "receiver", 8);  // whose end a sender has not heard of yet
    v1::AgentTask& ended = add_part(*status.add_ended(), "receiver", 8);
    ended.set_state("failed");
    ended.set_error("sender h2 gave up");
    ended.set_ended_seconds_ago(5);
    const auto json = task_record_json("words", status);
    REQUIRE(json.ok());
    REQUIRE(json->size() == 3);
    CHECK((*json)[1]["role"] == "sender");
    CHECK((*json)[2]["state"] == "failed");
    const auto text = task_record_text("words", status);
    CHECK(shows(text, "role      sender, to h3, of user 0"));
    CHECK(shows(text, "state     failed 5.0 s ago"));
    CHECK(shows(text, "error     sender h2 gave up"));
}

TEST_CASE("the record of a task on a switch") {
    v1::SwitchStatus status;
    v1::SwitchTask& task = *status.add_tasks();
    task.set_id("words");
    task.set_receiver("198.18.3.2");
    task.set_aggregators(2048);
    task.set_copies(2);
    task.set_back_bytes(65536);
    task.mutable_stats()->set_tuples_switch(12);
    const auto text = task_record_text("words", status);
    CHECK(shows(text, "region    2,048 aggregators per array, a back level of 64.0 KiB, 2 copies"));
    CHECK(shows(text, "tuples_switch     12  aggregated on the switch"));
    CHECK(task_record_json("words", status).ok());
}

TEST_CASE("a task that is not known is an error that says where to look") {
    const auto text = task_record_text("words", v1::AgentStatus());
    REQUIRE_FALSE(text.ok());
    CHECK(text.error().code() == Errc::kUnknown);
    CHECK(text.error().text().starts_with("no task words here: askctl tasks --all lists"));
    CHECK_FALSE(task_record_json("words", v1::SwitchStatus()).ok());
}

}  // namespace
}  // namespace ask::cli
