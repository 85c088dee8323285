// SPDX-License-Identifier: Apache-2.0
#include "agent/metrics.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>

#include "agent/status.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/task_totals.h"

namespace ask {
namespace {

constexpr double kSecondsOfNano = 1e-9;

// One of these a group, by its name.
prometheus::MetricFamily a_group(const char* name, const char* help,
                                 const std::vector<v1::AgentGroup>& groups,
                                 double (*value)(const v1::AgentGroup&)) {
    prometheus::MetricFamily family = gauge_family(name, help);
    for (const v1::AgentGroup& group : groups) {
        add_gauge(family, {{"group", group.id()}}, value(group));
    }
    return family;
}

void add_named_groups(const std::vector<v1::AgentGroup>& groups, MetricFamilies& families) {
    families.push_back(
        a_group("ask_agent_group_operations", "Operations of the group that have ended", groups,
                [](const v1::AgentGroup& group) { return static_cast<double>(group.operations()); }));
    families.push_back(a_group("ask_agent_group_operations_under_way", "Operations begun and not ended",
                               groups, [](const v1::AgentGroup& group) {
                                   return static_cast<double>(group.operations_begun() - group.operations());
                               }));
    families.push_back(a_group("ask_agent_group_waiting_seconds",
                               "For how long the oldest chunk has had no result", groups,
                               [](const v1::AgentGroup& group) { return group.waiting_seconds(); }));
    families.push_back(
        a_group("ask_agent_group_chunks_switch", "Chunks that a switch added up; on the root's host", groups,
                [](const v1::AgentGroup& group) { return static_cast<double>(group.chunks_switch()); }));
    families.push_back(a_group(
        "ask_agent_group_chunks_collector", "Chunks that the collector added up; on the root's host", groups,
        [](const v1::AgentGroup& group) { return static_cast<double>(group.chunks_collector()); }));
}

void add_groups(Agent& agent, MetricFamilies& families) {
    const auto groups = groups_now(agent);
    const auto on_switch =
        std::ranges::count_if(groups, [](const v1::AgentGroup& group) { return group.through_switch(); });
    families.push_back(
        gauge("ask_agent_groups", "Groups that have a member here", static_cast<double>(groups.size())));
    families.push_back(gauge("ask_agent_groups_on_switch", "Of these, those that a switch adds for",
                             static_cast<double>(on_switch)));
    families.push_back(gauge("ask_agent_group_arena_bytes", "Memory of groups' arenas",
                             static_cast<double>(agent.workers.arenas().used())));
    families.push_back(gauge("ask_agent_group_arena_limit_bytes", "What they may take (arena_limit_mib)",
                             static_cast<double>(agent.workers.arenas().limit())));
    families.push_back(counter("ask_agent_groups_failed_total", "Groups with a member here that have failed",
                               agent.group_book.failed()));
    if (agent.config.security.metrics_tasks) {
        add_named_groups(groups, families);
    }
}

void add_tasks(Agent& agent, MetricFamilies& families) {
    auto live = gauge_family("ask_agent_tasks",
                             "Tasks that are received here, or sent from here, and have not ended");
    auto ended =
        counter_family("ask_agent_tasks_ended_total",
                       "Tasks that have ended; code 0: committed, else the exit code of its command");
    auto seconds = histogram_family(
        "ask_agent_task_duration_seconds",
        "Of tasks that committed: a receive from the first join to its result, a send from its opening");
    for (const TaskRole role : kTaskRoles) {
        const TaskTotals::OfRole totals = agent.member.totals.of(role);
        const bool receives = role == TaskRole::kReceiver;
        add_gauge(live, {{"role", to_string(role)}},
                  static_cast<double>(receives ? agent.member.registry.live() : agent.member.sends.size()));
        for (std::size_t code = 0; code < totals.ended.size(); ++code) {
            add_counter(ended, {{"role", to_string(role)}, {"code", std::to_string(code)}},
                        totals.ended[code]);
        }
        add_histogram(seconds, {{"role", to_string(role)}}, totals.seconds.bounds(), totals.seconds.counts(),
                      totals.seconds.sum());
    }
    for (auto* const family : {&live, &ended, &seconds}) {
        families.push_back(std::move(*family));
    }
}

// What results were made of, once their tasks had committed.
void add_results(Agent& agent, MetricFamilies& families) {
    const TaskTotals::OfRole totals = agent.member.totals.of(TaskRole::kReceiver);
    const std::uint64_t sent = totals.stats.tuples_sent();
    const std::uint64_t by_switch = std::min(sent, totals.stats.tuples_switch());
    auto tuples = counter_family("ask_agent_result_tuples_total",
                                 "Tuples in results of tasks that committed, by where they were added up");
    add_counter(tuples, {{"added", "switch"}}, by_switch);
    add_counter(tuples, {{"added", "host"}}, sent - by_switch);
    families.push_back(std::move(tuples));
    families.push_back(
        counter("ask_agent_result_keys_total", "Keys in results of tasks that committed", totals.keys));
    families.push_back(counter("ask_agent_result_bytes_total", "Memory of these results", totals.bytes));
    families.push_back(gauge("ask_agent_results_kept", "Results that were not taken and are kept",
                             static_cast<double>(agent.member.kept.describe().size())));
    const MemoryBudget& tables = agent.tables.budget();
    families.push_back(gauge("ask_agent_table_bytes",
                             "Memory of results, those that applications hold among them",
                             static_cast<double>(tables.used())));
    families.push_back(gauge("ask_agent_table_limit_bytes", "What they may take (table_limit_mib)",
                             static_cast<double>(tables.limit())));
}

// What channels have sent, those that are under way among them.
void add_senders(const WorkerTotals& sum, std::uint32_t host, MetricFamilies& families) {
    v1::FlowStats sent;
    set_sender_part(sent, sum.senders, host);
#define ASK_SENDER_STAT(name, text) \
    families.push_back(counter("ask_agent_sender_" #name "_total", "senders: " text, sent.name()));
#define ASK_SENDER_DETAIL(name, text) ASK_SENDER_STAT(name, text)
#include "lib/abi/stats.def"
    families.push_back(counter("ask_agent_sender_acks_ignored_total",
                               "senders: acknowledgements of packets that were not in flight any more",
                               sum.senders.acks_ignored));
    families.push_back(counter("ask_agent_sender_acks_bad_total",
                               "senders: acknowledgements that were malformed, or whose check did not fit",
                               sum.senders.acks_bad));
    families.push_back(counter("ask_agent_sender_ecn_echoes_total",
                               "senders: acknowledgements that told of congestion on the way",
                               sum.senders.ecn_echoes));
}

// An octave a bucket, in full octaves of AckTimes, so that nothing is split: from 16 us to 2 s.
void add_ack_times(const AckTimes& times, MetricFamilies& families) {
    constexpr std::uint32_t kOctave = 8;  // buckets
    constexpr std::uint32_t kFirst = 5;
    constexpr std::uint32_t kLast = 22;
    std::array<double, kLast - kFirst + 1> bounds{};
    std::array<std::uint64_t, kLast - kFirst + 2> counts{};
    for (std::uint32_t octave = kFirst; octave <= kLast; ++octave) {
        bounds[octave - kFirst] =
            static_cast<double>(AckTimes::end_of(octave * kOctave - 1)) * kSecondsOfNano;
    }
    for (std::uint32_t bucket = 0; bucket < AckTimes::kBuckets; ++bucket) {
        const std::uint32_t octave = std::clamp(bucket / kOctave + 1, kFirst, kLast + 1);
        counts[octave - kFirst] += times.count(bucket);
    }
    auto family = histogram_family("ask_agent_ack_duration_seconds",
                                   "From a packet's first transmission to its acknowledgement");
    add_histogram(family, {}, bounds, counts, static_cast<double>(times.sum()) * kSecondsOfNano);
    families.push_back(std::move(family));
}

void add_queues(const std::vector<WorkerTotals>& workers, MetricFamilies& families) {
    auto streams = gauge_family("ask_agent_worker_streams", "Channels of a worker that send for a task");
    auto in_flight =
        gauge_family("ask_agent_worker_in_flight_packets", "Packets of these without acknowledgement");
    auto frames =
        gauge_family("ask_agent_worker_sending_frames", "Frames that a worker has given the kernel to send");
    auto inbox =
        gauge_family("ask_agent_worker_inbox_packets",
                     "Packets that wait for a worker, of other workers and of this host's own tasks");
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const MetricLabels labels = {{"worker", std::to_string(i)}};
        add_gauge(streams, labels, static_cast<double>(workers[i].streams));
        add_gauge(in_flight, labels, static_cast<double>(workers[i].in_flight));
        add_gauge(frames, labels, static_cast<double>(workers[i].frames_sending));
        add_gauge(inbox, labels, static_cast<double>(workers[i].inbox_packets));
    }
    for (auto* const family : {&streams, &in_flight, &frames, &inbox}) {
        families.push_back(std::move(*family));
    }
}

void add_channels(Agent& agent, MetricFamilies& families) {
    const auto channels = agent.member.channels.list();
    families.push_back(
        gauge("ask_agent_channels", "Channels that there are", static_cast<double>(channels.size())));
    families.push_back(gauge("ask_agent_channels_in_use",
                             "Of these, those that serve a send or a member of a group",
                             static_cast<double>(std::ranges::count_if(
                                 channels, [](const Channels::Entry& entry) { return entry.in_use; }))));
    families.push_back(gauge("ask_agent_channels_limit", "Channels that there may be (max_channels)",
                             static_cast<double>(agent.config.max_channels)));
}

// What workers count is left out while one of them does not answer.
void add_workers(Agent& agent, MetricFamilies& families) {
    const auto workers = agent.workers.totals();
    if (!workers.ok()) {
        return;
    }
    const WorkerTotals sum = sum_of(*workers);
    v1::AgentStatus status;
    add_counters(agent, sum, status);
    for (const v1::Counter& counted : status.counters()) {
        families.push_back(
            counter("ask_agent_" + counted.name() + "_total", counted.text(), counted.value()));
    }
    add_senders(sum, agent.member.options.address, families);
    add_ack_times(sum.ack_times, families);
    add_queues(*workers, families);
}

// Those that are received here.
void add_streams(Agent& agent, MetricFamilies& families) {
    auto age = gauge_family("ask_agent_stream_committed_age_seconds",
                            "Since a window of the stream was committed, or it was opened");
    auto every = gauge_family("ask_agent_stream_window_seconds", "How long a window of the stream is");
    auto members = gauge_family("ask_agent_stream_members", "Members of the stream");
    auto windows =
        counter_family("ask_agent_stream_windows_total",
                       "Windows of the stream that were committed since it was opened, by what they are");
    auto failed = counter_family("ask_agent_stream_runs_failed_total",
                                 "Runs of the stream's windows that have failed, and began again");
    auto late = counter_family("ask_agent_stream_late_total",
                               "How often a window of the stream lasted longer, since one before was not "
                               "committed; not by clocks that were set");
    for (const v1::AgentStream& stream : agent.member.registry.describe_streams()) {
        const MetricLabels labels = {{"stream", stream.name()}};
        add_gauge(age, labels, stream.committed_seconds_ago());
        add_gauge(every, labels, std::chrono::duration<double>(milliseconds(stream.every_ms())).count());
        add_gauge(members, labels, stream.members_size());
        add_counter(windows, {{"stream", stream.name()}, {"state", "whole"}}, stream.whole());
        add_counter(windows, {{"stream", stream.name()}, {"state", "incomplete"}}, stream.incomplete());
        add_counter(windows, {{"stream", stream.name()}, {"state", "empty"}}, stream.empty());
        add_counter(failed, labels, stream.failed_runs());
        add_counter(late, labels, stream.late());
    }
    for (auto* const family : {&age, &every, &members, &windows, &failed, &late}) {
        families.push_back(std::move(*family));
    }
}

// Prometheus calls Collect() from its own threads.
class AgentMetrics : public prometheus::Collectable {
 public:
    explicit AgentMetrics(Agent& agent) : agent_(agent) {}

    [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
        MetricFamilies families;
        add_workers(agent_, families);
        add_tasks(agent_, families);
        add_results(agent_, families);
        add_channels(agent_, families);
        families.push_back(gauge("ask_agent_task_switches",
                                 "Switches that tasks received here are open on, for each task",
                                 static_cast<double>(agent_.member.registry.on_switch().size())));
        add_streams(agent_, families);
        add_groups(agent_, families);
        std::vector<std::string> interfaces;
        std::ranges::transform(agent_.interfaces, std::back_inserter(interfaces), &InterfaceInfo::name);
        add_port_metrics("ask_agent", interfaces, families);
        add_process_metrics("ask_agent", families);
        return families;
    }

 private:
    Agent& agent_;
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> expose_metrics(Agent& agent) {
    return MetricsServer::start(agent.config.security.metrics, std::make_shared<AgentMetrics>(agent));
}

}  // namespace ask
