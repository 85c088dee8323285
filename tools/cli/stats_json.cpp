// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stats_json.h"

#include <nlohmann/json.hpp>

#include "tools/cli/to_json.h"

namespace ask::cli {
namespace {

double filled_ratio(const client::TaskStats& stats) {
    return stats.slots_offered == 0
               ? 0.0
               : static_cast<double>(stats.slots_filled) / static_cast<double>(stats.slots_offered);
}

// "tuples_receiver", with the sum first.
Json& left_of(Json& json, const client::ReceiverTuples& tuples) {
    Json& left = json["tuples_receiver"];
    if (left.is_null()) {
        left = {{"total", tuples.total()}, {"long", tuples.long_key}};
    }
    return left;
}

void put_stats(Json& json, const client::TaskStats& stats) {
#define ASK_SENDER_STAT(name, text) json[#name] = stats.name;
#define ASK_TAKEN_STAT(name, field, text) json[#field] = stats.field;
#define ASK_LEFT_STAT(cause, text) left_of(json, stats.tuples_receiver)[#cause] = stats.tuples_receiver.cause;
#define ASK_BESIDE_STAT(name, text) json[#name] = stats.name;
#define ASK_PART_STAT(name, text) json[#name] = stats.name;
#include "lib/abi/stats.def"
    json["slots_filled_ratio"] = filled_ratio(stats);
    json["packets_by_tuples"] = stats.packets_by_tuples;
    json["seconds"] = stats.seconds;
}

// Of a task on its senders' own.
void put_switches(Json& json, const client::ReceiveReport& report) {
    json["switches"] = Json::array();
    for (const client::TaskSwitchReport& at : report.switches) {
        json["switches"].push_back({{"address", at.address},
                                    {"aggregators", at.aggregators},
                                    {"back_bytes", at.back_bytes},
                                    {"note", at.note},
                                    {"senders", at.senders},
                                    {"swaps", at.swaps},
                                    {"tuples", at.tuples}});
    }
    json["without_switch"] = Json::array();
    for (const client::SenderWithoutSwitch& sender : report.without) {
        json["without_switch"].push_back({{"sender", sender.name}, {"reason", sender.reason}});
    }
}

}  // namespace

std::string send_stats_json(const client::TaskStats& stats, std::uint32_t runs, std::uint64_t lines_skipped) {
    Json json;
    put_stats(json, stats);
    json["runs"] = runs;
    json["lines_skipped"] = lines_skipped;
    return dump(json);
}

std::string stream_stats_json(const client::StreamSent& sent, std::uint64_t lines_skipped) {
    Json json;
    put_stats(json, sent.stats);
    json["lines_skipped"] = lines_skipped;
    json["windows"] = sent.windows;
    json["windows_left_out"] = sent.left_out;
    json["tuples_late"] = sent.late;
    return dump(json);
}

std::string receive_stats_json(const client::ReceiveInfo& info, const client::ReceiveReport& report) {
    Json json;
    put_stats(json, report.stats);
    json["complete"] = report.missing.empty();
    json["missing"] = Json::array();
    for (const client::MissingSenders& missing : report.missing) {
        json["missing"].push_back(
            {{"name", missing.name}, {"senders", missing.senders}, {"reason", missing.reason}});
    }
    json["runs"] = report.runs;
    json["fetched"] = report.fetched;
    json["swaps"] = report.swaps;
    json["geometry"] = to_string(info.geometry);
    json["geometry_reason"] = info.geometry_reason;
    json["aggregators"] = info.aggregators;
    json["back_bytes"] = info.back_bytes;
    put_switches(json, report);
    json["relays"] = Json::array();
    for (const client::TaskRelayReport& relay : report.relays) {
        json["relays"].push_back({{"name", relay.name},
                                  {"address", relay.address},
                                  {"parent", relay.parent},
                                  {"senders", relay.senders},
                                  {"hosts", relay.hosts}});
    }
    json["senders"] = Json::array();
    for (const client::NamedStats& sender : report.senders) {
        Json entry;
        entry["name"] = sender.name;
        put_stats(entry, sender.stats);
        json["senders"].push_back(std::move(entry));
    }
    return dump(json);
}

}  // namespace ask::cli
