// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/report.h"

#include <doctest/doctest.h>

#include "proto/agent.pb.h"
#include "tools/cli/names.h"
#include "tools/cli/progress.h"
#include "tools/cli/table.h"
#include "tools/cli/to_json.h"

namespace ask::cli {
namespace {

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("columns are as wide as they need, numbers stand to the right") {
    Table table({{"NAME"}, {"VALUE", Align::kRight}, {"MEANING"}});
    CHECK(table.empty());
    table.add({"a", "1", "one"});
    table.add({"longer", "1,000", ""});
    table.add({"steer\033[2J", "5", "x"});
    CHECK(table.text() ==
          "NAME          VALUE  MEANING\n"
          "a                 1  one\n"
          "longer        1,000\n"
          "steer\\x1b[2J      5  x\n");
}

TEST_CASE("status as JSON: lists of counts, of words and of messages") {
    v1::AgentTask task;
    task.add_senders_joined("h1");
    task.mutable_stats()->add_packets_by_tuples(3);
    task.mutable_stats()->add_packets_by_tuples(0);
    v1::AgentStatus status;
    *status.add_tasks() = task;
    const auto json = to_json(status);
    CHECK(json["tasks"][0]["senders_joined"] == nlohmann::json({"h1"}));
    CHECK(json["tasks"][0]["stats"]["packets_by_tuples"] == nlohmann::json({3, 0}));
}

TEST_CASE("numbers are written for people") {
    CHECK(grouped(0) == "0");
    CHECK(grouped(999) == "999");
    CHECK(grouped(1000) == "1,000");
    CHECK(grouped(UINT64_MAX) == "18,446,744,073,709,551,615");
    CHECK(bytes_text(1023) == "1023 B");
    CHECK(bytes_text(1536) == "1.5 KiB");
    CHECK(bytes_text(20480ULL * 1024) == "20.0 MiB");
    CHECK(bytes_text(3ULL << 30) == "3.0 GiB");
    CHECK(percent(1, 8) == "12.5 %");
    CHECK(percent(0, 0) == "-");
    CHECK(duration_text(0.25) == "0.2 s");
    CHECK(duration_text(59.9) == "59 s");
    CHECK(duration_text(61) == "1 min 1 s");
    CHECK(duration_text(7260) == "2 h 1 min");
    CHECK(duration_text(90000) == "1 d 1 h");
    CHECK(short_count(9999) == "9999");
    CHECK(short_count(12'345) == "12.3 k");
    CHECK(short_count(UINT64_MAX) == "18.4 E");
}

TEST_CASE("things are named as users know them") {
    CHECK(address_text(0xc6120102) == "198.18.1.2");
    CHECK(instance_text(255) == "0x00000000000000ff");
    CHECK(op_text(v1::OPERATOR_COUNT) == "count");
    CHECK(op_text(static_cast<v1::Operator>(99)) == "unknown");
    v1::Geometry geometry;
    CHECK(geometry_text(geometry) == "-");
    geometry.set_short_slots(16);
    geometry.set_rows(4);
    CHECK(geometry_text(geometry) == "16*4");
    CHECK(mark_text(v1::Mark()) == "none");
}

TEST_CASE("JSON keeps every field, and 64-bit names whole") {
    v1::SwitchStatus status;
    v1::SwitchTask& task = *status.add_tasks();
    task.set_instance(0xfedcba9876543210);
    task.set_op(v1::OPERATOR_MIN);
    task.mutable_stats()->set_tuples_switch(UINT64_MAX);
    v1::Counter& counter = *status.add_counters();
    counter.set_name("ack_new");
    counter.set_value(7);
    status.add_channels()->mutable_channel()->set_host(0xc6120102);
    const Json tasks = tasks_json(status);
    REQUIRE(tasks.size() == 1);
    CHECK(tasks[0]["instance"] == "0xfedcba9876543210");
    CHECK(tasks[0]["op"] == "min");
    CHECK(tasks[0]["stats"]["tuples_switch"] == UINT64_MAX);
    CHECK(tasks[0]["lease_left_seconds"] == 0.0);
    CHECK(counters_json(status)[0]["name"] == "ack_new");
    const Json whole = status_json(status);
    CHECK_FALSE(whole.contains("tasks"));
    CHECK_FALSE(whole.contains("counters"));
    CHECK(whole["channels"][0]["channel"]["host"] == "198.18.1.2");
    CHECK(whole["sram_total_bytes"] == 0);
    CHECK(Json::parse(dump(whole)) == whole);
}

TEST_CASE("a status names what is wrong in capitals") {
    v1::AgentStatus agent;
    agent.set_name("h1");
    agent.set_switch_address("198.18.1.1:4792");
    CHECK(contains(status_text(agent), "NOT REACHABLE"));
    agent.set_switch_reachable(true);
    CHECK_FALSE(contains(status_text(agent), "NOT REACHABLE"));
    CHECK(contains(tasks_text(agent), "no tasks"));
    v1::SwitchStatus on_switch;
    on_switch.add_ports()->set_name("p1");
    CHECK(contains(status_text(on_switch), "MISSING"));
    on_switch.mutable_ports(0)->set_attached(true);
    CHECK_FALSE(contains(status_text(on_switch), "MISSING"));
    CHECK(contains(counters_text(on_switch.counters()), "no counters"));
}

}  // namespace
}  // namespace ask::cli
