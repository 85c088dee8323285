// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/report.h"

#include <algorithm>

#include "lib/rpc/flow_stats.h"
#include "lib/rpc/types.h"
#include "tools/cli/names.h"
#include "tools/cli/streams.h"
#include "tools/cli/table.h"
#include "tools/cli/views.h"

namespace ask::cli {
namespace {

Table facts() {
    return Table({{"", Align::kLeft}, {"", Align::kLeft}});
}

std::string or_none(const std::string& text) {
    return text.empty() ? "none" : text;
}

std::string switch_ports(const v1::SwitchStatus& status) {
    Table table({{"PORT"}, {"IFINDEX", Align::kRight}, {"MODE"}, {"MTU", Align::kRight}, {"PROGRAM"}});
    for (const v1::SwitchPort& port : status.ports()) {
        table.add({port.name(), std::to_string(port.ifindex()), port.mode(), std::to_string(port.mtu()),
                   port.attached() ? "attached" : "MISSING"});
    }
    std::string text = table.empty() ? "" : "\n" + table.text();
    for (const v1::SwitchPort& port : status.ports()) {
        text += port.trouble().empty() ? "" : port.trouble() + "\n";
    }
    return text;
}

template <typename Status>
std::string version_text(const Status& status) {
    const std::uint32_t wire = status.upkeep().wire_version();
    return "version " + status.version() + (wire == 0 ? "" : ", packets of " + wire_version_name(wire));
}

bool is_over(const v1::AgentTask& task) {
    return task.state() == "committed" || task.state() == "failed";
}

std::string senders_text(const v1::AgentTask& task) {
    if (task.role() == "sender") {
        return "to " + task.peer();
    }
    return std::to_string(task.senders_joined_size()) + "/" + std::to_string(task.senders_expected()) +
           " joined, " + std::to_string(task.senders_finished_size()) + " finished";
}

std::string interfaces_text(const v1::AgentStatus& status) {
    std::string text = status.interface();
    for (int i = 1; i < status.interfaces_size(); ++i) {
        text += ", " + status.interfaces(i);
    }
    return text;
}

}  // namespace

std::string status_text(const v1::AgentStatus& status) {
    Table table = facts();
    table.add({"agent", status.name() + ", " + version_text(status) + ", up " +
                            duration_text(status.uptime_seconds())});
    table.add({"interface", interfaces_text(status) + " (" + status.address() + "), XDP " +
                                or_none(status.xdp_mode()) + ", AF_XDP " + or_none(status.bind_mode())});
    if (status.control_port() != 0) {
        table.add({"control port", std::to_string(status.control_port())});
    }
    table.add({"workers", std::to_string(status.workers())});
    table.add({"switch", status.switch_address().empty()
                             ? "none configured"
                             : status.switch_address() +
                                   (status.switch_reachable() ? ", reachable" : ", NOT REACHABLE")});
    table.add({"tasks", std::to_string(status.tasks_size()) + " (askctl tasks)"});
    if (status.streams_size() > 0) {
        table.add({"streams", std::to_string(status.streams_size()) + " (askctl streams)"});
    }
    table.add({"groups", std::to_string(status.groups_size()) + " (askctl groups)"});
    table.add({"channels", std::to_string(status.channels_size())});
    return table.text() + (status.channels().empty() ? "" : "\n" + channels_text(status));
}

std::string status_text(const v1::SwitchStatus& status) {
    Table table = facts();
    table.add({"switch", mark_text(status.mark()) + ", " + version_text(status) + ", up " +
                             duration_text(status.uptime_seconds())});
    table.add({"memory", status.memory() + ", dedupe " + status.dedupe() + ", pins in " + status.pin_dir()});
    table.add({"SRAM", bytes_text(status.sram_used_bytes()) + " of " + bytes_text(status.sram_total_bytes()) +
                           " per pipeline in use (" +
                           percent(status.sram_used_bytes(), status.sram_total_bytes()) + ")"});
    table.add({"back levels", bytes_text(status.back_used_bytes()) + " of " +
                                  bytes_text(status.back_total_bytes()) + " in use, " +
                                  bytes_text(status.back_kept_bytes()) + " kept for tasks to come"});
    table.add({"tasks", std::to_string(status.tasks_size()) + " (askctl tasks)"});
    table.add({"channels",
               std::to_string(status.channels_size()) + " of " + std::to_string(status.channels_max())});
    return table.text() + switch_ports(status) +
           (status.channels().empty() ? "" : "\n" + channels_text(status));
}

std::string tasks_text(const v1::AgentStatus& status, bool all) {
    Table table({{"TASK"},
                 {"ROLE"},
                 {"OP"},
                 {"STATE"},
                 {"SENDERS"},
                 {"TUPLES IN", Align::kRight},
                 {"ON SWITCH", Align::kRight},
                 {"HERE", Align::kRight},
                 {"AGE", Align::kRight}});
    const auto add = [&table](const v1::AgentTask& task, const std::string& state) {
        table.add(
            {task.id(), task.role(), op_text(task.op()), state, senders_text(task),
             grouped(task.stats().tuples_in()), grouped(task.stats().tuples_switch()),
             grouped(task.stats().tuples_data() + task.stats().tuples_long() + task.stats().tuples_var()),
             duration_text(task.age_seconds())});
    };
    for (const v1::AgentTask& task : status.tasks()) {
        // Those that have ended are in the other list.
        if (!is_over(task)) {
            add(task, task.state());
        }
    }
    if (all) {
        for (const v1::AgentTask& task : status.ended()) {
            add(task, task.state() + " " + duration_text(task.ended_seconds_ago()) + " ago");
        }
    }
    std::string text = table.empty() ? "no tasks\n" : table.text();
    if (status.streams_size() > 0) {
        text += "\n" + streams_text(status);
    }
    if (!all && status.ended_size() > 0) {
        text += std::to_string(status.ended_size()) + " ended lately: askctl tasks --all\n";
    }
    return text;
}

std::string tasks_text(const v1::SwitchStatus& status, bool /*all*/) {
    Table table({{"TASK"},
                 {"OP"},
                 {"GEOMETRY"},
                 {"POLICY"},
                 {"AGGREGATORS", Align::kRight},
                 {"REGION", Align::kRight},
                 {"FLOWS", Align::kRight},
                 {"AGGREGATED", Align::kRight},
                 {"LEFT", Align::kRight},
                 {"LEASE", Align::kRight},
                 {"RECEIVER"}});
    for (const v1::SwitchTask& task : status.tasks()) {
        const v1::FlowStats& stats = task.stats();
        table.add({task.id(), op_text(task.op()), geometry_text(task.geometry()),
                   task.aggregators() == 0 ? "none" : policy_text(task.policy()),
                   task.aggregators() == 0 ? "none" : grouped(task.aggregators()),
                   bytes_text(task.region_bytes()), std::to_string(task.flows()),
                   grouped(stats.tuples_switch()), grouped(tuples_sent_on(stats)),
                   duration_text(task.lease_left_seconds()), task.receiver()});
    }
    return table.empty() ? "no tasks\n" : table.text();
}

std::string counters_text(const google::protobuf::RepeatedPtrField<v1::Counter>& counters) {
    Table table({{"COUNTER"}, {"CLASS"}, {"VALUE", Align::kRight}, {"MEANING"}});
    for (const v1::Counter& counter : counters) {
        table.add({counter.name(), counter.class_(), grouped(counter.value()), counter.text()});
    }
    return table.empty() ? "no counters\n" : table.text();
}

}  // namespace ask::cli
