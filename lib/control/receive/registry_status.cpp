// SPDX-License-Identifier: Apache-2.0
//
// The tasks that are received, as people see them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/member/convert.h"
#include "lib/control/receive/registry.h"

namespace ask {

const char* to_string(TaskPhase phase) {
    switch (phase) {
        case TaskPhase::kPlanning:
            return "waiting for a sender, to choose the geometry";
        case TaskPhase::kOpening:
            return "opening";
        case TaskPhase::kWaiting:
            return "waiting for senders";
        case TaskPhase::kStreaming:
            return "streaming";
        case TaskPhase::kFetching:
            return "fetching";
        case TaskPhase::kComputed:
            return "computed, not taken yet";
        case TaskPhase::kCommitted:
            return "committed";
        case TaskPhase::kFailed:
            return "failed";
    }
    return "?";
}

v1::SwitchOfTask TaskRegistry::describe_locked(const ReceiveTask& task, const TaskSwitch& at) {
    v1::SwitchOfTask entry;
    entry.set_address(at.client->address());
    entry.set_aggregators(at.aggregators);
    entry.set_back_bytes(at.back_bytes);
    entry.set_note(at.note);
    std::uint64_t tuples = 0;
    for (const TaskSender& sender : task.senders) {
        if (sender.joined && sender.flow.mark == at.mark) {
            entry.add_senders(sender.name);
            tuples += sender.stats.tuples_switch();
        }
    }
    // At its end each sender has its own part.
    entry.set_tuples(tuples != 0 ? tuples : at.part.tuples_switch());
    return entry;
}

std::vector<v1::SenderWithout> TaskRegistry::without_locked(const ReceiveTask& task) {
    std::vector<v1::SenderWithout> all;
    for (const TaskSender& sender : task.senders) {
        if (!sender.without.empty()) {
            v1::SenderWithout& entry = all.emplace_back();
            entry.set_sender(sender.name);
            entry.set_reason(sender.without);
        }
    }
    return all;
}

std::vector<v1::RelayOfTask> TaskRegistry::relays_locked(const ReceiveTask& task) {
    return task.placed ? task.placed->describe() : std::vector<v1::RelayOfTask>();
}

std::vector<v1::FlowsFrom> TaskRegistry::flows_locked(const ReceiveTask& task) {
    std::map<std::pair<std::string, std::uint32_t>, v1::FlowsFrom> flows;
    for (const TaskSender& sender : task.senders) {
        if (!sender.joined) {
            continue;
        }
        // Two relays may be beside each other on one host.
        v1::FlowsFrom& entry = flows[{sender.relay, sender.flow.channel.host}];
        entry.set_host(sender.flow.channel.host);
        entry.set_relay(sender.relay);
        entry.set_joined(entry.joined() + 1);
        entry.set_finished(entry.finished() + (sender.fin ? 1 : 0));
        entry.set_packets(entry.packets() + sender.stats.packets_sent());
        entry.set_frame_bytes(entry.frame_bytes() + sender.stats.frame_bytes());
        entry.set_retransmissions(entry.retransmissions() + sender.stats.retransmissions());
    }
    std::vector<v1::FlowsFrom> all;
    all.reserve(flows.size());
    for (auto& [from, entry] : flows) {
        all.push_back(std::move(entry));
    }
    return all;
}

// A plan is long: whoever looks at a task without one pays nothing for it.
void TaskRegistry::describe_placed_locked(const ReceiveTask& task, v1::AgentTask& entry) {
    if (!task.placed) {
        return;
    }
    for (v1::RelayOfTask& relay : relays_locked(task)) {
        *entry.add_relays() = std::move(relay);
    }
    for (v1::FlowsFrom& flows : flows_locked(task)) {
        *entry.add_flows() = std::move(flows);
    }
    *entry.mutable_placement() = task.placed->plan();
}

v1::AgentTask TaskRegistry::describe_locked(const ReceiveTask& task) {
    v1::AgentTask entry;
    entry.set_id(task.id);
    entry.set_instance(task.instance);
    entry.set_role("receiver");
    entry.set_user(task.user);
    entry.set_state(to_string(task.phase));
    entry.set_op(task.op);
    entry.set_senders_expected(task.expects());
    for (const TaskSender& sender : task.senders) {
        entry.add_senders_joined(sender.name);
        if (sender.fin) {
            entry.add_senders_finished(sender.name);
        }
        add_stats(*entry.mutable_stats(), sender.stats);
    }
    add_running_parts(*entry.mutable_stats(), task.switches);
    entry.set_age_seconds(std::chrono::duration<double>(Clock::now() - task.opened).count());
    entry.set_error(task.outcome.error());
    if (task.phase > TaskPhase::kOpening) {
        *entry.mutable_geometry() = geometry_to_proto(task.geometry);
        entry.set_aggregators(granted(task.switches));
        entry.set_note(task.note);
        entry.set_back_bytes(task.back_bytes);
        entry.set_whole_keys(std::ranges::any_of(task.switches, takes_whole_keys));
        entry.set_no_back_reason(task.no_back_reason);
        entry.set_geometry_reason(task.geometry_reason);
        entry.set_own_switches(task.own.has_value());
        for (const TaskSwitch& at : task.switches) {
            *entry.add_switches() = describe_locked(task, at);
        }
        for (v1::SenderWithout& without : without_locked(task)) {
            *entry.add_without() = std::move(without);
        }
        describe_placed_locked(task, entry);
    }
    return entry;
}

// The latest first: of a task that began again, the run that counts. A result that is kept is there once, as
// that, for as long as it is.
std::vector<v1::AgentTask> TaskRegistry::describe() {
    std::vector<v1::AgentTask> list;
    std::set<std::uint64_t> kept;
    if (options_.kept != nullptr) {
        options_.kept->forget_old();
        list = options_.kept->describe();
    }
    for (const v1::AgentTask& task : list) {
        kept.insert(task.instance());
    }
    const Guard lock(mutex_);
    forget_old_locked();
    std::vector<const ReceiveTask*> others;
    for (const auto& [instance, task] : by_instance_) {
        if (!kept.contains(instance)) {
            others.push_back(task.get());
        }
    }
    std::ranges::stable_sort(others, std::ranges::greater(), &ReceiveTask::opened);
    list.reserve(list.size() + others.size());
    for (const ReceiveTask* const task : others) {
        list.push_back(describe_locked(*task));
    }
    return list;
}

std::size_t TaskRegistry::live() {
    const Guard lock(mutex_);
    return live_.size();
}

v1::AgentTask TaskRegistry::describe(const ReceiveTask& task) {
    const Guard lock(mutex_);
    return describe_locked(task);
}

}  // namespace ask
