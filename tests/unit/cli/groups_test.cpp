// SPDX-License-Identifier: Apache-2.0
//
// What askctl says of groups: who is waited for and why, why the switch does not help, and what to do.
#include "tools/cli/groups.h"

#include <doctest/doctest.h>

namespace ask::cli {
namespace {

bool shows(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

void count(v1::AgentGroup& group, const std::string& name, std::uint64_t value,
           const std::string& kind = "traffic") {
    v1::Counter& counter = *group.add_counters();
    counter.set_name(name);
    counter.set_class_(kind);
    counter.set_text("meaning of " + name);
    counter.set_value(value);
}

// At the root, four members, in the middle of operation 13.
v1::AgentStatus running() {
    v1::AgentStatus status;
    v1::AgentGroup& group = *status.add_groups();
    group.set_id("train");
    group.set_rank(0);
    group.set_size(4);
    group.set_root("h1 (198.18.1.2)");
    group.set_coordinates(true);
    group.set_state("open");
    group.set_switch_("switch 198.18.9.1:4792");
    group.set_note("the switch adds and sends results to all");
    group.set_through_switch(true);
    group.set_direct(true);
    group.set_deadline_seconds(30);
    group.set_window(64);
    group.set_slots(64);
    group.set_blocks(22);
    group.set_operations(12);
    group.set_operations_begun(14);
    group.set_operation(13);
    group.set_chunk(1234);
    group.set_waiting_seconds(2.2);
    group.add_missing(3);
    group.set_chunks_switch(9000);
    group.set_chunks_collector(1000);
    for (int rank = 0; rank < 4; ++rank) {
        v1::AgentGroupMember& member = *group.add_members();
        const std::string number = std::to_string(rank + 1);
        member.set_name("h" + number + " (198.18." + number + ".2)");
        member.set_known(true);
        member.set_operations(12);
        member.set_operations_begun(rank == 3 ? 12 : 14);
        member.set_heard_seconds_ago(0.3);
    }
    count(group, "member_values_sent", 10000);
    count(group, "member_results", 9999);
    count(group, "member_resends", 0);
    count(group, "collector_collided", 0);
    count(group, "member_needs_late", 0, "drop");
    status.set_arena_bytes(64ULL << 20);
    status.set_arena_limit_bytes(8ULL << 30);
    status.set_arena_user_limit_bytes(7ULL << 30);
    return status;
}

std::string explained(const v1::AgentStatus& status, const TaskSources& with = {}) {
    TaskSources sources = with;
    sources.agent = status;
    const auto text = explain_group("train", sources);
    REQUIRE_MESSAGE(text.ok(), text.error().text());
    return *text;
}

v1::AgentGroup& only(v1::AgentStatus& status) {
    return *status.mutable_groups(0);
}

}  // namespace

TEST_CASE("the list has a line a group, and what of the arenas is used") {
    const std::string text = groups_text(running(), false);
    CHECK(shows(text, "train  0 of 4  h1 (198.18.1.2)  open, operation 13 for 2.2 s  adds, sends to all"));
    CHECK(shows(text, "arenas: 64.0 MiB of 8.0 GiB in use, one user may have 7.0 GiB"));
    CHECK(shows(groups_text(v1::AgentStatus(), false), "no groups\n"));
}

TEST_CASE("of several switches each is shown, and one that does not add is named with its reason") {
    v1::AgentStatus status = running();
    v1::AgentGroup& group = only(status);
    v1::AgentGroupSwitch& last = *group.add_switches();
    last.set_address("198.18.9.1:4792");
    last.set_last(true);
    last.set_open(true);
    last.set_slots(64);
    last.add_members(0);
    last.add_members(1);
    v1::AgentGroupSwitch& first = *group.add_switches();
    first.set_address("198.18.9.2:4792");
    first.add_members(2);
    first.add_members(3);
    first.set_trouble("its task table is full");
    const auto text = group_text(status, "train");
    REQUIRE(text.ok());
    CHECK(shows(*text, "198.18.9.1:4792, of rank(s) 0, 1, adds, 64 slots"));
    CHECK(shows(*text, "198.18.9.2:4792, of rank(s) 2, 3, does not add: its task table is full"));
    CHECK(shows(explained(status), "The switch 198.18.9.2:4792 does not add: its task table is full"));
    first.set_losses(1);
    group.set_switch_losses(1);
    group.set_switch_lost("switch 198.18.9.2:4792");
    group.set_switch_trouble("it does not know it any more");
    group.set_switch_lost_seconds_ago(12);
    CHECK(shows(groups_text(status, false), "adds in part"));
    CHECK(shows(explained(status),
                "The switch switch 198.18.9.2:4792 lost the group 12 s ago (it does not know it any "
                "more); the other switches and the collector add meanwhile"));
}

TEST_CASE("those that have ended are shown where they are asked for") {
    v1::AgentStatus status = running();
    v1::AgentGroup& ended = *status.add_ended_groups();
    ended = status.groups(0);
    ended.set_id("before");
    ended.set_state("failed");
    ended.set_error("group before: h3 (198.18.3.2) has left it");
    ended.set_ended_seconds_ago(5);
    CHECK_FALSE(shows(groups_text(status, false), "before"));
    CHECK(shows(groups_text(status, false), "1 ended lately: askctl groups --all"));
    CHECK(shows(groups_text(status, true), "failed 5.0 s ago"));
    CHECK(groups_json(status, false)["groups"].size() == 1);
    CHECK(groups_json(status, true)["groups"].size() == 2);
    const auto one = group_text(status, "before");
    REQUIRE(one.ok());
    CHECK(shows(*one, "group before: h3 (198.18.3.2) has left it"));
    CHECK(group_text(status, "none").error().code() == Errc::kUnknown);
}

TEST_CASE("one group: members, switch, operations, every counter by name") {
    const auto text = group_text(running(), "train");
    REQUIRE(text.ok());
    CHECK(shows(*text, "rank 0 of 4"));
    CHECK(shows(*text, "h1 (198.18.1.2), this host"));
    CHECK(shows(*text, "9,000 added up on the switch (90.0 %), 1,000 by the collector"));
    CHECK(shows(*text, "64 packets of a stream, 64 slots on the switch, at most 1408 B each"));
    CHECK(shows(*text, "12 ended, 2 under way, the oldest, operation 13, at chunk 1234 of stream 0"));
    CHECK(shows(*text, "rank 3, h4 (198.18.4.2)"));
    CHECK(shows(*text, "member_needs_late"));
    CHECK(shows(*text, "meaning of member_needs_late"));
    const auto json = group_json(running(), "train");
    REQUIRE(json.ok());
    CHECK((*json)["missing"] == Json({3}));
    CHECK((*json)["chunks_switch"] == 9000);
}

TEST_CASE("whom it waits for, and why: an application, an agent, the way") {
    v1::AgentStatus status = running();
    CHECK(
        shows(explained(status),
              "rank 3, h4 (198.18.4.2), has not begun operation 13, for which the others wait for 2.2 s: its "
              "agent is there: its application computes, or hangs; the group fails in 27 s unless it comes"));
    only(status).mutable_members(3)->set_heard_seconds_ago(4);
    CHECK(shows(explained(status),
                "rank 3, h4 (198.18.4.2), has not sent for 2.2 s, and its agent is silent for 4.0 s"));
    only(status).mutable_members(3)->set_heard_seconds_ago(0.1);
    only(status).mutable_members(3)->set_operations_begun(13);
    CHECK(shows(explained(status), "has begun operation 13, and its part has not come for 2.2 s"));
    // Where only the root knows more.
    only(status).mutable_members(3)->set_known(false);
    CHECK(shows(explained(status), "askctl group explain on h1 (198.18.1.2) knows more of it"));
    only(status).clear_missing();
    CHECK(shows(explained(status), "Neither switch nor collector has answered for 2.2 s"));
    only(status).set_waiting_seconds(0.01);
    CHECK(shows(explained(status), "Nothing is in its way."));
}

TEST_CASE("who has not joined is named") {
    v1::AgentStatus status = running();
    only(status).set_state("waiting");
    only(status).set_waiting_for("ranks 1, 3");
    only(status).clear_operation();
    CHECK(shows(explained(status), "It waits for ranks 1, 3 to join: start its member"));
}

TEST_CASE("why the switch does not help") {
    v1::AgentStatus status = running();
    v1::AgentGroup& group = only(status);
    group.clear_operation();
    group.set_through_switch(false);
    group.set_note("the collector adds: h2 (198.18.2.2) is not registered at switch 198.18.9.1:4792");
    CHECK(shows(explained(status),
                "The switch does not help: the collector adds: h2 (198.18.2.2) is not registered"));
    group.set_switch_losses(1);
    group.set_switch_lost_seconds_ago(12);
    group.set_switch_trouble("it does not know it any more");
    CHECK(shows(explained(status),
                "lost the group 12 s ago (it does not know it any more); the collector adds meanwhile"));
    group.set_through_switch(true);
    group.set_switch_opened_seconds_ago(10);
    CHECK(shows(explained(status), "opened there again 10 s ago"));
}

TEST_CASE("a pool that is too small is named, with who shares it") {
    v1::AgentStatus status = running();
    only(status).clear_operation();
    only(status).mutable_counters(3)->set_value(500);
    v1::SwitchStatus on_switch;
    on_switch.set_value_slots(64);
    for (const char* id : {"train", "b", "c"}) {
        v1::SwitchTask& task = *on_switch.add_tasks();
        task.set_id(id);
        task.set_members(4);
        task.set_value_slots(64);
    }
    TaskSources sources;
    sources.on_switch = on_switch;
    CHECK(shows(
        explained(status, sources),
        "Pool full: 3 group(s) share 64 slots, and 500 partial sums met a slot that was another chunk's: "
        "raise value_slots of the switch"));
    CHECK(shows(groups_text(on_switch, false), "shared by 3 group(s)"));
}

TEST_CASE("what the way does: losses, late answers, marks; and drops by name") {
    v1::AgentStatus status = running();
    v1::AgentGroup& group = only(status);
    group.clear_operation();
    group.mutable_counters(2)->set_value(600);
    CHECK(shows(explained(status), "Answers are late: 600 of 10,000 chunks were sent again"));
    count(group, "member_losses", 400);
    CHECK(shows(explained(status), "The way loses packets: 400 of 10,000 chunks (4.0 %)"));
    count(group, "member_marks", 700);
    CHECK(shows(explained(status), "The way is congested: 700 answers are marked"));
    group.mutable_counters(4)->set_value(7);
    CHECK(shows(explained(status), "member_needs_late is 7: meaning of member_needs_late"));
}

TEST_CASE("a group that has failed says why, and whether others may go on") {
    v1::AgentStatus status = running();
    v1::AgentGroup& group = only(status);
    group.clear_operation();
    group.set_state("failed");
    group.set_error("group train: h4 (198.18.4.2) has left it: its application ended early");
    CHECK(shows(explained(status), "It has failed: group train: h4 (198.18.4.2) has left it"));
    CHECK(shows(explained(status), "open it anew"));
    group.mutable_members(3)->set_dead(true);
    CHECK(
        shows(explained(status), "the others may go on without rank 3, h4 (198.18.4.2): ask_group_shrink()"));
    TaskSources sources;
    sources.agent = status;
    const auto json = explain_group_json("train", sources);
    REQUIRE(json.ok());
    CHECK((*json)["here"]["findings"].size() == 1);
}

}  // namespace ask::cli
