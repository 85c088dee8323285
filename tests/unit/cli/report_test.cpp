// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/report.h"

#include <doctest/doctest.h>

#include "lib/net/host_book.h"
#include "lib/rpc/hosts6.h"
#include "lib/tuples/fetch_codec.h"
#include "proto/agent.pb.h"
#include "tools/cli/names.h"
#include "tools/cli/progress.h"
#include "tools/cli/rate.h"
#include "tools/cli/region_dump.h"
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

TEST_CASE("status as JSON has addresses of hosts, and not their numbers") {
    v1::AgentStatus status;
    status.add_channels()->mutable_channel()->set_host(0xc6120102);
    status.add_channels()->mutable_channel()->set_host(parse_host("2001:db8::1").value());
    explain_hosts(status);
    const auto json = to_json(status);
    CHECK(json["channels"][0]["channel"]["host"] == "198.18.1.2");
    CHECK(json["channels"][1]["channel"]["host"] == "2001:db8::1");
    CHECK_FALSE(json.contains("hosts6"));
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
    v1::ChannelId channel;
    channel.set_host(0xc6120102);
    channel.set_port(49152);
    CHECK(channel_text(channel) == "198.18.1.2:49152");
    channel.set_host(parse_host("2001:db8::1").value());
    CHECK(channel_text(channel) == "[2001:db8::1]:49152");
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
    const Json tasks = tasks_json(status, false);
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
    CHECK(contains(tasks_text(agent, false), "no tasks"));
    v1::AgentTask& ended = *agent.add_ended();
    ended.set_id("yesterdays");
    ended.set_state("failed");
    ended.set_ended_seconds_ago(61);
    CHECK(contains(tasks_text(agent, false), "no tasks\n1 ended lately: askctl tasks --all\n"));
    CHECK(contains(tasks_text(agent, true), "failed 1 min 1 s ago"));
    CHECK(tasks_json(agent, false).empty());
    REQUIRE(tasks_json(agent, true).size() == 1);
    CHECK(tasks_json(agent, true)[0]["id"] == "yesterdays");
    // One that not every sender has been told of is in both lists, and is shown once.
    ended.set_role("receiver");
    *agent.add_tasks() = ended;
    CHECK(contains(tasks_text(agent, false), "no tasks"));
    CHECK(tasks_json(agent, true).size() == 1);
    // A host may have ended one send to a task while another goes on.
    agent.mutable_ended(0)->set_role("sender");
    agent.mutable_tasks(0)->set_role("sender");
    CHECK(tasks_json(agent, true).size() == 2);
    v1::SwitchStatus on_switch;
    on_switch.add_ports()->set_name("p1");
    on_switch.mutable_ports(0)->set_trouble("port p1: no such interface");
    CHECK(contains(status_text(on_switch), "MISSING"));
    CHECK(contains(status_text(on_switch), "\nport p1: no such interface\n"));
    on_switch.mutable_ports(0)->set_attached(true);
    CHECK_FALSE(contains(status_text(on_switch), "MISSING"));
    CHECK(contains(counters_text(on_switch.counters()), "no counters"));
}

TEST_CASE("progress: a rate over the last seconds, and how much of a file is read") {
    const Rate::Time start{std::chrono::seconds(50)};
    Rate rate;
    CHECK(rate.add(start, 1000) == 0);
    CHECK(rate.add(start + std::chrono::seconds(2), 5000) == 2000);
    CHECK(rate.add(start + std::chrono::seconds(10), 5000) == 0);
    CHECK(rate.add(start + std::chrono::seconds(11), 14000) == 9000);
    // A task that begins again counts from nothing.
    CHECK(rate.add(start + std::chrono::seconds(12), 10) == 0);
    client::TaskProgress progress;
    progress.state = "streaming";
    progress.stats.tuples_in = 12'345;
    CHECK(describe_send(progress, 0, std::nullopt) == "streaming, 12.3 k tuples in");
    CHECK(describe_send(progress, 2500, 0.429) == "streaming, 42 % read, 12.3 k tuples in (2500/s)");
    progress.stats.tuples_switch = 9000;
    progress.senders_joined = 1;
    CHECK(describe_receive(progress, 2, 2500) ==
          "streaming, senders: 1 of 2 joined, 0 finished, 12.3 k tuples in (2500/s), 9000 added up on the "
          "switch, 0 here");
}

TEST_CASE("a region's dump: equal keys combined, by key or the largest first") {
    std::string entries;
    append_entry(entries, "b", 5);
    append_entry(entries, "a\t", 7);
    append_entry(entries, "b", -2);
    RegionDump sum(v1::OPERATOR_SUM, public_seed(1));
    REQUIRE(sum.add(entries).ok());
    CHECK(sum.text(0) == "a\\t\t7\nb\t3\n");
    CHECK(sum.text(1) == "a\\t\t7\n");
    CHECK(sum.json(5)[1]["value"] == 3);
    RegionDump bytes(v1::OPERATOR_SUM, public_seed(1));
    std::string odd;
    append_entry(odd, "a\xff\t", 1);
    append_entry(odd, "a\xfe", 2);
    append_entry(odd, "\xc3\xa4", 3);
    REQUIRE(bytes.add(odd).ok());
    CHECK(
        Json::parse(dump(bytes.json(0))) ==
        Json::parse(
            R"([{"key": "a\\xfe", "value": 2}, {"key": "a\\xff\\t", "value": 1}, {"key": "ä", "value": 3}])"));
    RegionDump smallest(v1::OPERATOR_MIN, public_seed(1));
    REQUIRE(smallest.add(entries).ok());
    CHECK(smallest.text(0) == "a\\t\t7\nb\t-2\n");
    CHECK_FALSE(sum.add(entries.substr(0, entries.size() - 1)).ok());
}

}  // namespace
}  // namespace ask::cli
