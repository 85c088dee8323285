// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/views.h"

#include <algorithm>
#include <cmath>

#include "lib/rpc/flow_stats.h"
#include "tools/cli/names.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

std::string one_decimal(double value) {
    const auto tenths = static_cast<std::uint64_t>(std::llround(std::max(value, 0.0) * 10));
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

// Of the SRAM that is in use.
struct Shares {
    std::uint64_t regions = 0;
    std::uint64_t values = 0;  // of groups
    std::uint64_t others = 0;  // channels and their packets' state
    std::uint64_t free = 0;
};

Shares shares_of(const v1::SwitchStatus& status) {
    Shares shares;
    for (const v1::SwitchTask& task : status.tasks()) {
        shares.regions += task.region_bytes();
    }
    shares.values = status.value_used_bytes();
    const std::uint64_t known = shares.regions + shares.values;
    shares.others = status.sram_used_bytes() - std::min(known, status.sram_used_bytes());
    shares.free = status.sram_total_bytes() - std::min(status.sram_used_bytes(), status.sram_total_bytes());
    return shares;
}

std::uint64_t tuples_here(const v1::FlowStats& stats) {
    return stats.tuples_data() + stats.tuples_long() + stats.tuples_var();
}

}  // namespace

std::string channels_text(const v1::AgentStatus& status) {
    Table table({{"CHANNEL"},
                 {"INCARNATION", Align::kRight},
                 {"NEXT SEQ", Align::kRight},
                 {"IN FLIGHT", Align::kRight},
                 {"WINDOW", Align::kRight},
                 {"SRTT us", Align::kRight},
                 {"TASK"}});
    for (const v1::AgentChannel& channel : status.channels()) {
        table.add({channel_text(channel.channel()), std::to_string(channel.incarnation()),
                   std::to_string(channel.next_seq()), std::to_string(channel.in_flight()),
                   one_decimal(channel.window()), one_decimal(channel.srtt_us()),
                   channel.task_id().empty() ? "idle" : channel.task_id()});
    }
    return table.empty() ? "no channels\n" : table.text();
}

std::string channels_text(const v1::SwitchStatus& status) {
    Table table({{"CHANNEL"}, {"INCARNATION", Align::kRight}, {"PORT"}});
    for (const v1::SwitchChannel& channel : status.channels()) {
        table.add({channel_text(channel.channel()), std::to_string(channel.incarnation()), channel.port()});
    }
    return table.empty() ? "no channels\n" : table.text();
}

std::string regions_text(const v1::SwitchStatus& status) {
    Table table({{"TASK"},
                 {"AGGREGATORS", Align::kRight},
                 {"COPIES", Align::kRight},
                 {"REGION", Align::kRight},
                 {"OF SRAM", Align::kRight},
                 {"BACK LEVEL", Align::kRight},
                 {"OF BACK LEVELS", Align::kRight},
                 {"RECEIVER"}});
    for (const v1::SwitchTask& task : status.tasks()) {
        if (task.service() == "values") {
            continue;  // of the pool
        }
        table.add({task.id(), task.aggregators() == 0 ? "none" : grouped(task.aggregators()),
                   std::to_string(task.copies()), bytes_text(task.region_bytes()),
                   percent(task.region_bytes(), status.sram_total_bytes()), bytes_text(task.back_bytes()),
                   percent(task.back_bytes(), status.back_total_bytes()), task.receiver()});
    }
    const Shares shares = shares_of(status);
    const auto share = [&status](const std::string& what, std::uint64_t bytes) {
        return std::vector<std::string>{what, bytes_text(bytes), percent(bytes, status.sram_total_bytes())};
    };
    Table sums({{"SRAM"}, {"PER PIPELINE", Align::kRight}, {"SHARE", Align::kRight}});
    sums.add(share("regions", shares.regions));
    sums.add(share("groups' values", shares.values));
    sums.add(share("channels and all else", shares.others));
    sums.add(share("free", shares.free));
    sums.add(share("budget", status.sram_total_bytes()));
    return (table.empty() ? "no regions\n" : table.text()) + "\n" + sums.text() +
           "\nback levels: " + bytes_text(status.back_used_bytes()) + " of " +
           bytes_text(status.back_total_bytes()) + " in use, " + bytes_text(status.back_kept_bytes()) +
           " kept for tasks to come\n";
}

Json regions_json(const v1::SwitchStatus& status) {
    const Shares shares = shares_of(status);
    Json list = Json::array();
    for (const v1::SwitchTask& task : status.tasks()) {
        if (task.service() != "values") {
            list.push_back({{"id", task.id()},
                            {"instance", instance_text(task.instance())},
                            {"aggregators", task.aggregators()},
                            {"copies", task.copies()},
                            {"region_bytes", task.region_bytes()},
                            {"back_bytes", task.back_bytes()},
                            {"receiver", task.receiver()}});
        }
    }
    return {{"sram_total_bytes", status.sram_total_bytes()},
            {"sram_used_bytes", status.sram_used_bytes()},
            {"sram_regions_bytes", shares.regions},
            {"sram_values_bytes", shares.values},
            {"sram_others_bytes", shares.others},
            {"sram_free_bytes", shares.free},
            {"back_total_bytes", status.back_total_bytes()},
            {"back_used_bytes", status.back_used_bytes()},
            {"back_kept_bytes", status.back_kept_bytes()},
            {"regions", std::move(list)}};
}

std::string history_text(const v1::AgentStatus& status) {
    Table table({{"ENDED", Align::kRight},
                 {"TASK"},
                 {"ROLE"},
                 {"OP"},
                 {"STATE"},
                 {"TOOK", Align::kRight},
                 {"TUPLES IN", Align::kRight},
                 {"ON SWITCH", Align::kRight},
                 {"HERE", Align::kRight},
                 {"WHY"}});
    for (const v1::AgentTask& task : status.ended()) {
        table.add({duration_text(task.ended_seconds_ago()) + " ago", task.id(), task.role(),
                   op_text(task.op()), task.state(), duration_text(task.age_seconds()),
                   grouped(task.stats().tuples_in()), grouped(task.stats().tuples_switch()),
                   grouped(tuples_here(task.stats())), task.error()});
    }
    return table.empty() ? "no task has ended here since the agent was started, or its history_tasks is 0\n"
                         : table.text();
}

Json history_json(const v1::AgentStatus& status) {
    return to_json(status)["ended"];
}

}  // namespace ask::cli
