// SPDX-License-Identifier: Apache-2.0
#include "loader/metrics.h"

#include <algorithm>
#include <exception>

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include "lib/daemon/listen.h"
#include "loader/counter_names.h"

namespace ask {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::size_t kHttpThreads = 2;

ClientMetric labelled(std::initializer_list<std::pair<const char*, std::string>> labels) {
    ClientMetric metric;
    for (const auto& [name, value] : labels) {
        metric.label.push_back({name, value});
    }
    return metric;
}

MetricFamily packet_counters(const std::vector<std::uint64_t>& values) {
    MetricFamily family{"ask_switch_packets_total",
                        "Packets by what the switch program did with them",
                        MetricType::Counter,
                        {}};
    for (std::size_t i = 0; i < values.size(); i++) {
        ClientMetric metric = labelled({{"counter", std::string(kSwitchCounters[i].name)},
                                        {"class", std::string(kSwitchCounters[i].kind)}});
        metric.counter.value = static_cast<double>(values[i]);
        family.metric.push_back(std::move(metric));
    }
    return family;
}

MetricFamily gauge(const char* name, const char* help, double value) {
    MetricFamily family{name, help, MetricType::Gauge, {}};
    ClientMetric metric;
    metric.gauge.value = value;
    family.metric.push_back(std::move(metric));
    return family;
}

MetricFamily counter(const char* name, const char* help, std::uint64_t value) {
    MetricFamily family{name, help, MetricType::Counter, {}};
    ClientMetric metric;
    metric.counter.value = static_cast<double>(value);
    family.metric.push_back(std::move(metric));
    return family;
}

void add_groups(std::vector<MetricFamily>& families, const ControllerReport& report) {
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

// Tuples of the tasks that are open, by what became of them.
MetricFamily tuple_counters(const std::vector<TaskReport>& tasks) {
    MetricFamily family{"ask_switch_task_tuples_total",
                        "Tuples of open tasks by what became of them on the switch",
                        MetricType::Counter,
                        {}};
    for (const TaskReport& task : tasks) {
        const std::pair<const char*, std::uint64_t> parts[] = {
            {"aggregated", task.stats.tuples_aggregated},
#define ASK_LEFT_STAT(cause, text) {#cause, task.stats.tuples_##cause},
#include "lib/abi/stats.def"
        };
        for (const auto& [result, value] : parts) {
            ClientMetric metric = labelled({{"task", task.id}, {"result", result}});
            metric.counter.value = static_cast<double>(value);
            family.metric.push_back(std::move(metric));
        }
    }
    return family;
}

MetricFamily task_counter(const std::vector<TaskReport>& tasks, const std::string& name, const char* help,
                          __u64 ask_flow_stats::* value) {
    MetricFamily family{"ask_switch_task_" + name + "_total", help, MetricType::Counter, {}};
    for (const TaskReport& task : tasks) {
        ClientMetric metric = labelled({{"task", task.id}});
        metric.counter.value = static_cast<double>(task.stats.*value);
        family.metric.push_back(std::move(metric));
    }
    return family;
}

// Beside them, what is not one of what became of a tuple.
void add_task_counters(std::vector<MetricFamily>& families, const std::vector<TaskReport>& tasks) {
#define ASK_BESIDE_STAT(name, text) \
    families.push_back(task_counter(tasks, #name, text, &ask_flow_stats::name));
#define ASK_PART_STAT(name, text) ASK_BESIDE_STAT(name, text)
#include "lib/abi/stats.def"
}

}  // namespace

class SwitchMetrics : public prometheus::Collectable {
 public:
    SwitchMetrics(const Controller& controller, const SwitchService& service, bool name_tasks)
        : controller_(controller), service_(service), name_tasks_(name_tasks) {}

    std::vector<MetricFamily> Collect() const override {
        std::vector<MetricFamily> families;
        if (const auto counters = controller_.counters(); counters.ok()) {
            families.push_back(packet_counters(*counters));
        }
        if (const auto report = controller_.report(); report.ok()) {
            if (name_tasks_) {
                families.push_back(tuple_counters(report->tasks));
                add_task_counters(families, report->tasks);
            }
            add_groups(families, *report);
            families.push_back(
                gauge("ask_switch_tasks", "Tasks that are open", static_cast<double>(report->tasks.size())));
            families.push_back(counter("ask_switch_swaps_total",
                                       "Shadow-copy swaps of all tasks since this daemon started",
                                       report->swaps));
            families.push_back(
                counter("ask_switch_tasks_without_region_total",
                        "Tasks that wanted memory here and got none, since this daemon started",
                        report->tasks_without_region));
            families.push_back(counter("ask_switch_swap_grace_periods_total",
                                       "Swaps that had to wait for an RCU grace period",
                                       report->swap_grace_periods));
            families.push_back(gauge("ask_switch_channels", "Channels that are registered",
                                     static_cast<double>(report->channels.size())));
            families.push_back(gauge("ask_switch_channels_limit", "Channels that may be registered",
                                     static_cast<double>(report->channels_max)));
            families.push_back(gauge("ask_switch_sram_bytes", "SRAM in use in one pipeline",
                                     static_cast<double>(report->sram_used_bytes)));
            families.push_back(gauge("ask_switch_sram_limit_bytes", "SRAM budget of one pipeline",
                                     static_cast<double>(report->sram_total_bytes)));
            families.push_back(gauge("ask_switch_back_bytes", "Memory in use by back levels",
                                     static_cast<double>(report->back_used_bytes)));
            families.push_back(gauge("ask_switch_back_limit_bytes", "Memory for back levels",
                                     static_cast<double>(report->back_total_bytes)));
            families.push_back(gauge("ask_switch_back_kept_bytes",
                                     "Memory of back levels that no task has, kept for tasks to come",
                                     static_cast<double>(report->back_kept_bytes)));
            families.push_back(counter("ask_switch_back_tables_made_total", "Tables of back levels made anew",
                                       report->back_tables_made));
            families.push_back(counter("ask_switch_back_tables_reused_total",
                                       "Tables of back levels that another task had before",
                                       report->back_tables_reused));
        }
        families.push_back(counter("ask_switch_refused_connections_total",
                                   "Connections turned away at the control port and socket, or cut off",
                                   service_.refused()));
        return families;
    }

 private:
    const Controller& controller_;
    const SwitchService& service_;
    const bool name_tasks_;
};

MetricsServer::MetricsServer() = default;
MetricsServer::MetricsServer(MetricsServer&&) noexcept = default;
MetricsServer& MetricsServer::operator=(MetricsServer&&) noexcept = default;
MetricsServer::~MetricsServer() = default;

Result<MetricsServer> MetricsServer::start(const SecurityConfig& config, const Controller& controller,
                                           const SwitchService& service) {
    const std::string& address = config.metrics;
    ASK_PASS(check_listen("metrics", address));
    MetricsServer server;
    server.metrics_ = std::make_shared<SwitchMetrics>(controller, service, config.metrics_tasks);
    try {
        server.exposer_ = std::make_unique<prometheus::Exposer>(address, kHttpThreads);
    } catch (const std::exception& error) {
        return Error(Errc::kUnavailable, "metrics: cannot listen on " + address + ": " + error.what());
    }
    server.exposer_->RegisterCollectable(server.metrics_);
    return server;
}

}  // namespace ask
