// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stats_json.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "lib/client/convert.h"
#include "lib/rpc/flow_stats.h"

namespace ask::cli {
namespace {

client::TaskStats sample() {
    client::TaskStats stats;
    stats.tuples_in = 100;
    stats.tuples_merged = 20;
    stats.tuples_sent = 80;
    stats.tuples_switch = 65;
    stats.tuples_evicted = 7;
    stats.tuples_back = 8;
    stats.tuples_whole = 9;
    stats.tuples_receiver = {.collision = 5,
                             .overflow = 3,
                             .contention = 2,
                             .back_full = 6,
                             .back_contention = 5,
                             .no_region = 1,
                             .long_key = 4};
    stats.packets_sent = 9;
    stats.packets_acked_by_switch = 6;
    stats.retransmissions = 1;
    stats.slots_filled = 70;
    stats.slots_offered = 140;
    stats.packets_by_tuples = {0, 2, 7};
    stats.seconds = 0.25;
    return stats;
}

TEST_CASE("statistics carry every key under its documented name") {
    const auto json = nlohmann::json::parse(send_stats_json(sample(), 1, 7));
    CHECK(json == nlohmann::json::parse(R"({
        "tuples_in": 100, "tuples_merged": 20, "tuples_sent": 80, "tuples_whole": 9, "tuples_switch": 65, "tuples_evicted": 7,
        "tuples_back": 8,
        "tuples_receiver": {"total": 26, "collision": 5, "long": 4, "overflow": 3, "contention": 2, "back_full": 6,
                            "back_contention": 5, "no_region": 1},
        "packets_sent": 9, "packets_acked_by_switch": 6, "slots_filled": 70, "slots_offered": 140,
        "slots_filled_ratio": 0.5, "packets_by_tuples": [0, 2, 7],
        "retransmissions": 1, "seconds": 0.25, "runs": 1, "lines_skipped": 7})"));
}

TEST_CASE("a member of a stream has the sum of its windows") {
    client::StreamSent sent{.windows = 2, .tuples = 200, .late = 3, .left_out = 1};
    client::add_stats(sent.stats, sample());
    client::add_stats(sent.stats, sample());
    const auto json = nlohmann::json::parse(stream_stats_json(sent, 7));
    CHECK(json["tuples_in"] == 200);
    CHECK(json["tuples_receiver"]["total"] == 52);
    CHECK(json["tuples_receiver"]["long"] == 8);
    CHECK(json["packets_by_tuples"] == nlohmann::json({0, 4, 14}));
    CHECK(json["seconds"] == 0.5);
    CHECK(json["windows"] == 2);
    CHECK(json["windows_left_out"] == 1);
    CHECK(json["tuples_late"] == 3);
    CHECK(json["lines_skipped"] == 7);
}

TEST_CASE("whatever the list says that a switch counts comes out under its name, once") {
    ask_flow_stats counted{};
    std::uint64_t next = 1;
#define ASK_TAKEN_STAT(name, field, text) counted.name = next++;
#define ASK_LEFT_STAT(cause, text) counted.tuples_##cause = next++;
#define ASK_BESIDE_STAT(name, text) counted.name = next++;
#define ASK_PART_STAT(name, text) counted.name = next++;
#include "lib/abi/stats.def"
    v1::FlowStats told;
    set_switch_part(told, counted);
    v1::FlowStats twice;
    add_stats(twice, told);
    add_switch_part(twice, told);
    copy_switch_part(told, twice);
    const auto json = nlohmann::json::parse(send_stats_json(client::stats_from_proto(told), 1, 0));
#define ASK_TAKEN_STAT(name, field, text) CHECK(json[#field] == 2 * counted.name);
#define ASK_LEFT_STAT(cause, text) CHECK(json["tuples_receiver"][#cause] == 2 * counted.tuples_##cause);
#define ASK_BESIDE_STAT(name, text) CHECK(json[#name] == 2 * counted.name);
#define ASK_PART_STAT(name, text) CHECK(json[#name] == 2 * counted.name);
#include "lib/abi/stats.def"
}

TEST_CASE("a receiver's statistics list the senders") {
    client::ReceiveInfo info;
    info.geometry = {.short_slots = 8, .groups = 6, .m = 4, .rows = 5};
    info.geometry_reason = "chosen";
    info.aggregators = 4096;
    client::ReceiveReport report{.stats = sample(),
                                 .senders = {{"h1", sample()}, {"\xff", {}}},
                                 .fetched = 77,
                                 .swaps = 3,
                                 .runs = 2,
                                 .missing = {},
                                 .switches = {},
                                 .without = {},
                                 .relays = {{"s1", "198.18.129.2:4793", "", 3, {"h1"}}}};
    CHECK(nlohmann::json::parse(receive_stats_json(info, report))["complete"] == true);
    report.missing.push_back({"h3", 1, "gave up"});
    const auto json = nlohmann::json::parse(receive_stats_json(info, report));
    CHECK(json["complete"] == false);
    CHECK(json["missing"] == nlohmann::json::parse(R"([{"name": "h3", "senders": 1, "reason": "gave up"}])"));
    CHECK(json["runs"] == 2);
    CHECK(json["relays"] ==
          nlohmann::json::parse(R"([{"name": "s1", "address": "198.18.129.2:4793", "parent": "",)"
                                R"( "senders": 3, "hosts": ["h1"]}])"));
    CHECK(json["geometry"] == "8+6x4*5");
    CHECK(json["geometry_reason"] == "chosen");
    CHECK(json["aggregators"] == 4096);
    CHECK(json["fetched"] == 77);
    CHECK(json["swaps"] == 3);
    CHECK(json["tuples_in"] == 100);
    REQUIRE(json["senders"].size() == 2);
    CHECK(json["senders"][0]["name"] == "h1");
    CHECK(json["senders"][0]["tuples_receiver"]["total"] == 26);
    CHECK(json["senders"][1]["slots_filled_ratio"] == 0.0);
}

}  // namespace
}  // namespace ask::cli
