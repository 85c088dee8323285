// SPDX-License-Identifier: Apache-2.0
//
// `askctl top`, `regions`, `channels` and `history`, of statuses that are made up.
#include "tools/cli/views.h"

#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "tools/cli/top.h"

namespace ask::cli {
namespace {

using std::chrono::milliseconds;

v1::AgentStatus agent_with(std::uint64_t tuples) {
    v1::AgentStatus status;
    status.set_name("h1");
    status.set_switch_address("192.0.2.1:4792");
    v1::AgentTask& task = *status.add_tasks();
    task.set_id("words");
    task.set_instance(7);
    task.set_role("receiver");
    task.set_state("streaming");
    task.mutable_stats()->set_tuples_in(tuples);
    task.mutable_stats()->set_tuples_switch(tuples / 2);
    task.mutable_stats()->set_tuples_data(tuples / 4);
    v1::AgentChannel& channel = *status.add_channels();
    channel.mutable_channel()->set_host(0xc0000202);
    channel.mutable_channel()->set_port(49152);
    channel.set_task_id("words");
    channel.set_next_seq(tuples / 10);
    status.add_channels();  // idle
    v1::Counter& counter = *status.add_counters();
    counter.set_name("tx_packets");
    counter.set_class_("traffic");
    counter.set_value(tuples);
    v1::Counter& drop = *status.add_counters();
    drop.set_name("drop_inbox_full");
    drop.set_class_("drop");
    drop.set_value(tuples / 100);
    v1::Counter& still = *status.add_counters();
    still.set_name("still");
    still.set_value(5);
    return status;
}

TEST_CASE("top has rates by the second look, and shows what moves") {
    Top top;
    const Rate::Time began{};
    top.look(began, agent_with(1000));
    CHECK(top.json()["tasks"][0]["tuples_rate"] == 0);
    CHECK(top.json()["counters"].empty());
    top.look(began + milliseconds(500), agent_with(2000));
    const Json json = top.json();
    CHECK(json["tasks"][0]["tuples_rate"] == 2000);
    CHECK(json["tasks"][0]["switch_rate"] == 1000);
    CHECK(json["tasks"][0]["here_rate"] == 500);
    REQUIRE(json["channels"].size() == 1);
    CHECK(json["channels"][0]["packets_rate"] == 200);
    // Drops first, however slowly they grow; what stands still is not there.
    REQUIRE(json["counters"].size() == 2);
    CHECK(json["counters"][0]["name"] == "drop_inbox_full");
    const std::string text = top.text();
    CHECK(text.starts_with("agent h1, "));
    CHECK(text.find("switch 192.0.2.1:4792 NOT REACHABLE") != std::string::npos);
    CHECK(text.find("words  receiver  streaming     2,000        1,000     500   2,000\n") !=
          std::string::npos);
}

TEST_CASE("a task that ends is forgotten, and one that begins anew has no rate yet") {
    Top top;
    const Rate::Time began{};
    top.look(began, agent_with(100'000));
    top.look(began + milliseconds(1000), v1::AgentStatus());
    CHECK(top.json()["tasks"].empty());
    CHECK(top.text().find("no tasks") != std::string::npos);
    top.look(began + milliseconds(2000), agent_with(300'000));
    CHECK(top.json()["tasks"][0]["tuples_rate"] == 0);
}

v1::SwitchStatus switch_with(std::uint64_t tuples) {
    v1::SwitchStatus status;
    status.set_sram_total_bytes(1000);
    status.set_sram_used_bytes(600);
    status.set_value_used_bytes(100);
    status.set_back_total_bytes(4096);
    status.set_back_used_bytes(1024);
    v1::SwitchTask& task = *status.add_tasks();
    task.set_id("words");
    task.set_service("tuples");
    task.set_region_bytes(250);
    task.set_back_bytes(1024);
    task.set_aggregators(64);
    task.mutable_stats()->set_tuples_switch(tuples);
    task.mutable_stats()->set_tuples_collision(tuples / 2);
    v1::SwitchTask& group = *status.add_tasks();
    group.set_id("grads");
    group.set_service("values");
    v1::SwitchPort& port = *status.add_ports();
    port.set_name("p1");
    port.set_mode("native");
    v1::SwitchChannel& channel = *status.add_channels();
    channel.mutable_channel()->set_host(0xc0000202);
    channel.mutable_channel()->set_port(49152);
    channel.set_port("p1");
    return status;
}

TEST_CASE("top of a switch has its ports, and names one without a program") {
    Top top;
    const Rate::Time began{};
    top.look(began, switch_with(0));
    top.look(began + milliseconds(1000), switch_with(900));
    CHECK(top.json()["tasks"][0]["switch_rate"] == 900);
    CHECK(top.json()["tasks"][0]["here_rate"] == 450);
    CHECK(top.json()["ports"][0]["attached"] == false);
    CHECK(top.text().find("MISSING") != std::string::npos);
}

TEST_CASE("regions add up to what is in use, and that and what is free to the budget") {
    const Json json = regions_json(switch_with(0));
    CHECK(json["sram_regions_bytes"] == 250);
    CHECK(json["sram_values_bytes"] == 100);
    CHECK(json["sram_others_bytes"] == 250);
    CHECK(json["sram_free_bytes"] == 400);
    REQUIRE(json["regions"].size() == 1);
    CHECK(json["regions"][0]["id"] == "words");
    const std::string text = regions_text(switch_with(0));
    CHECK(text.find("25.0 %") != std::string::npos);
    CHECK(text.find("400 B   40.0 %\n") != std::string::npos);
    CHECK(text.find("back levels: 1.0 KiB of 4.0 KiB in use") != std::string::npos);
    CHECK(text.find("grads") == std::string::npos);
    CHECK(regions_text(v1::SwitchStatus()).starts_with("no regions\n"));
}

TEST_CASE("channels and history, and that there are none") {
    CHECK(channels_text(v1::AgentStatus()) == "no channels\n");
    CHECK(channels_text(agent_with(10)).find("192.0.2.2:49152") != std::string::npos);
    CHECK(channels_json(switch_with(0))[0]["port"] == "p1");
    CHECK(channels_text(switch_with(0)).find("p1") != std::string::npos);
    v1::AgentStatus status;
    CHECK(history_text(status).starts_with("no task has ended here"));
    v1::AgentTask& task = *status.add_ended();
    task.set_id("old");
    task.set_role("sender");
    task.set_state("failed");
    task.set_error("host h9\n\033[31m gone");
    task.set_ended_seconds_ago(75);
    CHECK(history_text(status).find("1 min 15 s ago  old") != std::string::npos);
    CHECK(history_text(status).find('\033') == std::string::npos);
    CHECK(history_json(status)[0]["error"] == "host h9\n\033[31m gone");
}

}  // namespace
}  // namespace ask::cli
