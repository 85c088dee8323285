// SPDX-License-Identifier: Apache-2.0
//
// Streams as askctl shows them, of statuses that are made up.
#include "tools/cli/streams.h"

#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "tools/cli/explain.h"
#include "tools/cli/report.h"
#include "tools/cli/task_record.h"
#include "tools/cli/top.h"

namespace ask::cli {
namespace {

constexpr std::uint64_t kWindow = 176'000'000;  // 2025-10-09T08:53:20Z, of ten seconds

bool shows(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

void add_member(v1::AgentStream& stream, const std::string& name, double heard, bool lost) {
    v1::AgentStreamMember& member = *stream.add_members();
    member.set_member(0xfedcba9876543210);
    member.set_name(name);
    member.set_first(kWindow - 5);
    member.set_heard_seconds_ago(heard);
    member.set_lost(lost);
}

v1::AgentStatus with_streams() {
    v1::AgentStatus status;
    v1::AgentStream& stream = *status.add_streams();
    stream.set_name("web");
    stream.set_role("receiver");
    stream.set_every_ms(10'000);
    stream.set_state("running");
    stream.set_committed(kWindow - 1);
    stream.set_committed_seconds_ago(12);
    stream.set_whole(40);
    stream.set_incomplete(2);
    stream.set_late(3);
    v1::AgentWindow& window = *stream.add_windows();
    window.set_number(kWindow);
    window.set_begins_ms(kWindow * 10'000);
    window.set_state("open");
    window.set_joined(2);
    window.set_ended(1);
    window.set_members(3);
    window.set_waits_for("h2, h3");
    add_member(stream, "h1", 0.3, false);
    add_member(stream, "h2", 8, false);
    add_member(stream, "h3", 9, true);
    v1::AgentStream& sent = *status.add_streams();
    sent.set_name("web");
    sent.set_role("sender");
    sent.set_peer("h4");
    sent.set_every_ms(10'000);
    sent.set_state("running");
    sent.set_trouble("h4 (198.18.4.2): not reached");
    status.add_streams()->set_name("other");
    return status;
}

TEST_CASE("streams stand in a table, with the window that is waited for") {
    const std::string text = streams_text(with_streams());
    CHECK(shows(text,
                "web     receiver   10 s  running   12 s ago  2025-10-09T08:53:20Z     1        3           "
                "2  h2, h3"));
    CHECK(shows(text, "h4 (198.18.4.2): not reached"));
    CHECK(streams_text(v1::AgentStatus()).empty());
    CHECK(shows(tasks_text(with_streams(), false), text));
    CHECK(shows(status_text(with_streams()), "streams    3 (askctl streams)"));
}

TEST_CASE("streams for scripts: the age of the last commit, and ids that no reader rounds") {
    const Json json = streams_json(all_streams(with_streams()));
    REQUIRE(json.size() == 3);
    CHECK(json[0]["age_seconds"] == 12);
    CHECK(json[0]["waits_for"] == "h2, h3");
    CHECK(json[0]["members"][0]["member"] == "0xfedcba9876543210");
    CHECK(json[1]["age_seconds"].is_null());
    CHECK(json[1]["waits_for"] == "h4 (198.18.4.2): not reached");
}

TEST_CASE("top has a panel of streams") {
    Top top;
    top.look(std::chrono::steady_clock::time_point(), with_streams());
    CHECK(shows(top.text(), "\n\n" + streams_text(with_streams()) + "\nno tasks\n"));
    CHECK(top.json()["streams"].size() == 3);
    top.look(std::chrono::steady_clock::time_point(), v1::AgentStatus());
    CHECK_FALSE(shows(top.text(), "STREAM"));
}

TEST_CASE("the record of a stream, before those of tasks of its name") {
    v1::AgentStatus status = with_streams();
    const auto text = task_record_text("web", status);
    REQUIRE(text.ok());
    CHECK(shows(*text, "stream       web, a window every 10 s"));
    CHECK(shows(*text, "committed    2025-10-09T08:53:10Z, 12 s ago"));
    CHECK(shows(*text, "2025-10-09T08:53:20Z  open        2      1        3  h2, h3"));
    CHECK(shows(
        *text,
        "h3      0xfedcba9876543210  2025-10-09T08:52:30Z               9.0 s ago  ended without leaving"));
    CHECK(shows(*text, "role       sender, to h4, of user 0"));
    CHECK(task_record_json("web", status)->size() == 2);
    v1::AgentTask& task = *status.add_tasks();
    task.set_id("web");
    task.set_role("sender");
    CHECK(shows(*task_record_text("web", status), "task      web, instance 0x"));
    CHECK(task_record_json("web", status)->size() == 3);
    CHECK(task_record_text("nosuch", status).error().code() == Errc::kUnknown);
}

TEST_CASE("a stream is explained: how far it is, who is in its way, what to do") {
    TaskSources sources;
    sources.agent = with_streams();
    const auto text = explain_task("web", sources);
    REQUIRE(text.ok());
    CHECK(shows(*text,
                "Stream web, received here: a window every 10 s, running\n"
                "  Committed through window 2025-10-09T08:53:10Z, 12 s ago.\n"
                "  Window 2025-10-09T08:53:20Z is open: of 3 that send to it 2 have joined its run and 1 "
                "have ended it; "
                "those that have not: h2, h3.\n"));
    CHECK_FALSE(shows(*text, "  h1 "));
    CHECK(shows(*text, "  h2 has not been heard of for 8.0 s: look at ask-send"));
    CHECK(shows(*text, "  h3 has ended without leaving: start ask-send there with its --state"));
    CHECK(shows(*text, "40 whole, 2 incomplete and 0 empty windows"));
    CHECK(shows(*text, "windows.tsv in its directory names who is missing"));
    CHECK(shows(*text, "3 time(s) a window lasted longer"));
    CHECK(shows(*text, "Stream web, sent from here to h4"));
    CHECK(shows(*text, "In its way: h4 (198.18.4.2): not reached."));
    const auto json = explain_task_json("web", sources);
    REQUIRE(json.ok());
    CHECK((*json)["streams"].size() == 2);
    CHECK((*json)["here"].empty());
    CHECK(explain_task("nosuch", sources).error().code() == Errc::kUnknown);
}

}  // namespace
}  // namespace ask::cli
