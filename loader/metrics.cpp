// SPDX-License-Identifier: Apache-2.0
#include "loader/metrics.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>

#include "lib/tuples/switch_counts.h"
#include "loader/counter_names.h"

namespace ask {
namespace {

using prometheus::MetricFamily;

MetricFamily packet_counters(const std::vector<std::uint64_t>& values) {
    MetricFamily family =
        counter_family("ask_switch_packets_total", "Packets by what the switch program did with them");
    for (std::size_t i = 0; i < values.size(); i++) {
        add_counter(family,
                    {{"counter", std::string(kSwitchCounters[i].name)},
                     {"class", std::string(kSwitchCounters[i].kind)}},
                    values[i]);
    }
    return family;
}

void add_groups(MetricFamilies& families, const ControllerReport& report) {
    const auto count = [&report](auto&& which) {
        return static_cast<double>(std::ranges::count_if(report.tasks, which));
    };
    families.push_back(gauge("ask_switch_groups", "Groups that are open",
                             count([](const TaskReport& task) { return task.members > 0; })));
    families.push_back(gauge("ask_switch_groups_direct",
                             "Of these, those whose results go to all members from here",
                             count([](const TaskReport& task) { return task.members > 0 && task.direct; })));
    families.push_back(
        gauge("ask_switch_groups_without_slots", "Groups that got no slots: their collectors add",
              count([](const TaskReport& task) { return task.members > 0 && task.value_slots == 0; })));
    families.push_back(gauge("ask_switch_value_slots", "Slots of the pool that groups share",
                             static_cast<double>(report.value_slots)));
    families.push_back(gauge("ask_switch_value_bytes", "SRAM of that pool, while a group uses it",
                             static_cast<double>(report.value_used_bytes)));
}

// What became of a tuple: aggregated, or why not.
std::vector<std::pair<const char*, std::uint64_t>> fates_of(const ask_flow_stats& stats) {
    return {
#define ASK_TAKEN_STAT(name, field, text) {"aggregated", stats.name},
#define ASK_LEFT_STAT(cause, text) {#cause, stats.tuples_##cause},
#include "lib/abi/stats.def"
    };
}

// Of all tasks, those that are closed among them.
void add_tuples(MetricFamilies& families, const ControllerReport& report) {
    ask_flow_stats sum = report.ended;
    for (const TaskReport& task : report.tasks) {
        add(sum, task.stats);
    }
    MetricFamily tuples =
        counter_family("ask_switch_tuples_total",
                       "Tuples that came to the switch, by what became of them: aggregated, or why not");
    for (const auto& [result, value] : fates_of(sum)) {
        add_counter(tuples, {{"result", result}}, value);
    }
    families.push_back(std::move(tuples));
#define ASK_BESIDE_STAT(name, text) families.push_back(counter("ask_switch_" #name "_total", text, sum.name));
#define ASK_PART_STAT(name, text) ASK_BESIDE_STAT(name, text)
#include "lib/abi/stats.def"
}

// The same of each task that is open, by its name.
void add_named_tasks(MetricFamilies& families, const std::vector<TaskReport>& tasks) {
    MetricFamily tuples = counter_family("ask_switch_task_tuples_total",
                                         "Tuples of open tasks by what became of them on the switch");
    for (const TaskReport& task : tasks) {
        for (const auto& [result, value] : fates_of(task.stats)) {
            add_counter(tuples, {{"task", task.id}, {"result", result}}, value);
        }
    }
    families.push_back(std::move(tuples));
#define ASK_BESIDE_STAT(name, text)                                              \
    families.push_back(counter_family("ask_switch_task_" #name "_total", text)); \
    for (const TaskReport& task : tasks) {                                       \
        add_counter(families.back(), {{"task", task.id}}, task.stats.name);      \
    }
#define ASK_PART_STAT(name, text) ASK_BESIDE_STAT(name, text)
#include "lib/abi/stats.def"
}

class SwitchMetrics : public prometheus::Collectable {
 public:
    SwitchMetrics(const Controller& controller, const SwitchService& service, const PortTable& ports,
                  bool name_tasks)
        : controller_(controller), service_(service), ports_(ports), name_tasks_(name_tasks) {}

    [[nodiscard]] std::vector<MetricFamily> Collect() const override {
        MetricFamilies families;
        if (const auto counters = controller_.counters(); counters.ok()) {
            families.push_back(packet_counters(*counters));
        }
        if (const auto report = controller_.report(); report.ok()) {
            if (name_tasks_) {
                add_named_tasks(families, report->tasks);
            }
            add_tuples(families, *report);
            add_groups(families, *report);
            add_tasks(families, *report);
            add_memory(families, *report);
        }
        families.push_back(counter("ask_switch_refused_connections_total",
                                   "Connections turned away at the control port and socket, or cut off",
                                   service_.refused()));
        add_ports(families, ports_.all());
        add_process_metrics("ask_switch", families);
        return families;
    }

 private:
    static void add_ports(MetricFamilies& families, const std::vector<Port>& ports) {
        const auto attached = std::ranges::count_if(ports, &std::string::empty, &Port::trouble);
        families.push_back(gauge("ask_switch_ports", "Ports that the switch program is attached to",
                                 static_cast<double>(attached)));
        families.push_back(gauge("ask_switch_ports_in_trouble",
                                 "Ports that it is to be attached to and is not: missing, or refused",
                                 static_cast<double>(std::ssize(ports) - attached)));
        std::vector<std::string> names;
        for (const Port& port : ports) {
            if (port.trouble.empty()) {
                names.push_back(port.name);
            }
        }
        add_port_metrics("ask_switch", names, families);
    }

    static void add_tasks(MetricFamilies& families, const ControllerReport& report) {
        families.push_back(
            gauge("ask_switch_tasks", "Tasks that are open", static_cast<double>(report.tasks.size())));
        families.push_back(counter("ask_switch_tasks_opened_total",
                                   "Tasks and groups that were opened, since this daemon started",
                                   report.tasks_opened));
        families.push_back(counter("ask_switch_tasks_expired_total",
                                   "Tasks and groups whose receivers had not renewed them in time",
                                   report.tasks_expired));
        families.push_back(counter("ask_switch_swaps_total",
                                   "Shadow-copy swaps of all tasks since this daemon started", report.swaps));
        families.push_back(counter("ask_switch_tasks_without_region_total",
                                   "Tasks that wanted memory here and got none, since this daemon started",
                                   report.tasks_without_region));
        families.push_back(counter("ask_switch_swap_grace_periods_total",
                                   "Swaps that had to wait for an RCU grace period",
                                   report.swap_grace_periods));
        families.push_back(gauge("ask_switch_flows",
                                 "Flows of open tasks, with those that are being cleared away",
                                 report.flow_indices.used));
        families.push_back(gauge("ask_switch_channels", "Channels that are registered",
                                 static_cast<double>(report.channels.size())));
        families.push_back(gauge("ask_switch_channels_limit", "Channels that may be registered",
                                 static_cast<double>(report.channels_max)));
    }

    static void add_memory(MetricFamilies& families, const ControllerReport& report) {
        families.push_back(gauge("ask_switch_sram_bytes", "SRAM in use in one pipeline",
                                 static_cast<double>(report.sram_used_bytes)));
        families.push_back(gauge("ask_switch_sram_limit_bytes", "SRAM budget of one pipeline",
                                 static_cast<double>(report.sram_total_bytes)));
        families.push_back(gauge("ask_switch_back_bytes", "Memory in use by back levels",
                                 static_cast<double>(report.back_used_bytes)));
        families.push_back(gauge("ask_switch_back_limit_bytes", "Memory for back levels",
                                 static_cast<double>(report.back_total_bytes)));
        families.push_back(gauge("ask_switch_back_kept_bytes",
                                 "Memory of back levels that no task has, kept for tasks to come",
                                 static_cast<double>(report.back_kept_bytes)));
        families.push_back(counter("ask_switch_back_tables_made_total", "Tables of back levels made anew",
                                   report.back_tables_made));
        families.push_back(counter("ask_switch_back_tables_reused_total",
                                   "Tables of back levels that another task had before",
                                   report.back_tables_reused));
    }

    const Controller& controller_;
    const SwitchService& service_;
    const PortTable& ports_;
    const bool name_tasks_;
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> expose_metrics(const SecurityConfig& config,
                                                      const Controller& controller,
                                                      const SwitchService& service, const PortTable& ports) {
    return MetricsServer::start(
        config.metrics, std::make_shared<SwitchMetrics>(controller, service, ports, config.metrics_tasks));
}

}  // namespace ask
