// SPDX-License-Identifier: Apache-2.0
#include "agent/status.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/abi/map_types.h"
#include "lib/control/member/convert.h"
#include "lib/daemon/version.h"
#include "lib/rpc/upkeep.h"

namespace ask {
namespace {

constexpr milliseconds kStatusWait{500};

struct CounterText {
    const char* name;
    const char* kind;
    const char* text;
};

constexpr CounterText kAgentCounters[] = {
#define ASK_X(name, kind, text) {#name, #kind, text},
    ASK_AGENT_COUNTERS(ASK_X)};
constexpr CounterText kReceiverCounters[] = {ASK_RECEIVER_COUNTERS(ASK_X)};
constexpr CounterText kXskCounters[] = {ASK_XSK_COUNTERS(ASK_X)};
#undef ASK_X
constexpr CounterText kHostCounters[] = {
#define ASK_HOST_COUNTER(name, kind, text) {#name, #kind, text},
#include "lib/abi/counters.def"
#undef ASK_HOST_COUNTER
};

void add_counter(v1::AgentStatus& status, std::string prefix, const CounterText& counter,
                 std::uint64_t value) {
    v1::Counter& message = *status.add_counters();
    message.set_name(std::move(prefix) + counter.name);
    message.set_class_(counter.kind);
    message.set_text(counter.text);
    message.set_value(value);
}

template <typename Texts, typename Values>
void add_group_counters(const std::string& prefix, const Texts& texts, const Values& values,
                        v1::AgentStatus& status) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
        v1::Counter& message = *status.add_counters();
        message.set_name(prefix + std::string(texts[i].name));
        message.set_class_(std::string(texts[i].kind));
        message.set_text("groups: " + std::string(texts[i].text));
        message.set_value(values[i]);
    }
}

// Sums over the interfaces; none if one does not answer, as the sum would look as if it had fallen.
void add_host_counters(const Agent& agent, v1::AgentStatus& status) {
    std::array<std::uint64_t, std::size(kHostCounters)> sums{};
    for (const HostProgram& program : agent.programs) {
        const auto counters = program.counters();
        if (!counters.ok()) {
            return;
        }
        std::ranges::transform(sums, *counters, sums.begin(), std::plus());
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
        add_counter(status, "host_", kHostCounters[i], sums[i]);
    }
}

}  // namespace

void add_counters(Agent& agent, const WorkerTotals& sum, v1::AgentStatus& status) {
    for (std::size_t i = 0; i < std::size(kAgentCounters); ++i) {
        const auto counter = static_cast<AgentCounter>(i);
        add_counter(status, "", kAgentCounters[i],
                    agent.counters.get(counter) + agent.workers.counter(counter));
    }
    for (std::size_t i = 0; i < sum.receiver.size(); ++i) {
        add_counter(status, "receiver_", kReceiverCounters[i], sum.receiver[i]);
    }
    for (std::size_t i = 0; i < sum.xsk.size(); ++i) {
        add_counter(status, "", kXskCounters[i], sum.xsk[i]);
    }
    add_group_counters("group_member_", values::kMemberStats, values::list_of(sum.members), status);
    add_group_counters("group_collector_", values::kCollectorStats, values::list_of(sum.collectors), status);
    add_host_counters(agent, status);
}

std::vector<v1::AgentGroup> groups_now(Agent& agent) {
    std::vector<v1::AgentGroup> all;
    for (GroupBook::Entry& entry : agent.group_book.list()) {
        v1::AgentGroup& group = entry.group;
        if (entry.channel) {
            const auto state = agent.workers.group_state(group.instance(), *entry.channel);
            if (state.ok()) {
                describe(*state, group);
            }
        }
        if (group.coordinates()) {
            describe(agent.groups.seats(group.instance()), group);
        }
        all.push_back(std::move(group));
    }
    return all;
}

std::vector<v1::AgentStream> streams_now(Agent& agent) {
    std::vector<v1::AgentStream> all = agent.member.registry.describe_streams();
    for (v1::AgentStream& stream : agent.member.follows.list()) {
        all.push_back(std::move(stream));
    }
    return all;
}

namespace {

void add_groups(Agent& agent, v1::AgentStatus& status) {
    for (v1::AgentGroup& group : groups_now(agent)) {
        *status.add_groups() = std::move(group);
    }
    for (v1::AgentGroup& group : agent.group_book.ended()) {
        *status.add_ended_groups() = std::move(group);
    }
    const ArenaBudget& arenas = agent.workers.arenas();
    status.set_arena_bytes(arenas.used());
    status.set_arena_limit_bytes(arenas.limit());
    status.set_arena_user_limit_bytes(arenas.limit_of(1));
}

void add_ack_times(const AckTimes& times, v1::AgentChannel& channel) {
    for (std::uint32_t i = 0; i < AckTimes::kBuckets; ++i) {
        if (times.count(i) > 0) {
            v1::AckTimes& bucket = *channel.add_ack_times();
            bucket.set_below_us(static_cast<double>(AckTimes::end_of(i)) / kMicrosecond);
            bucket.set_packets(times.count(i));
        }
    }
}

void add_channels(Agent& agent, const std::vector<SendList::Entry>& sends, v1::AgentStatus& status) {
    for (const Channels::Entry& entry : agent.member.channels.list()) {
        const std::uint16_t port = entry.lease.id.port;
        v1::AgentChannel& channel = *status.add_channels();
        *channel.mutable_channel() = channel_to_proto(entry.lease.id);
        const auto state = agent.workers.owner(entry.lease.id).call([port](WorkerCore& core) {
            return core.stream_state(port);
        });
        if (state.ok()) {
            channel.set_incarnation(state->incarnation);
            channel.set_next_seq(state->next_seq);
            channel.set_in_flight(state->in_flight);
            channel.set_window(state->window);
            channel.set_srtt_us(static_cast<double>(state->srtt) / kMicrosecond);
        }
        const auto times = agent.workers.owner(entry.lease.id).call([port](WorkerCore& core) {
            return core.ack_times(port);
        });
        if (times.ok()) {
            add_ack_times(*times, channel);
        }
        for (const SendList::Entry& send : sends) {
            if (entry.in_use && send.port == port) {
                channel.set_task_id(send.task.id());
            }
        }
    }
}

}  // namespace

void keep_to(const Caller& caller, v1::AgentStatus& status) {
    const bool everything = may_operate(caller) || (!caller.verified && !caller.uid);
    if (everything) {
        set_upkeep(status, everything);
        return;
    }
    const auto is_others = [&](const v1::AgentTask& task) { return caller.uid != task.user(); };
    std::set<std::string> hidden;
    for (auto* const tasks : {status.mutable_tasks(), status.mutable_ended()}) {
        for (const v1::AgentTask& task : *tasks) {
            if (is_others(task)) {
                hidden.insert(task.id());
            }
        }
        tasks->erase(std::remove_if(tasks->begin(), tasks->end(), is_others), tasks->end());
    }
    for (auto* const groups : {status.mutable_groups(), status.mutable_ended_groups()}) {
        groups->erase(std::remove_if(groups->begin(), groups->end(),
                                     [&](const v1::AgentGroup& group) { return caller.uid != group.user(); }),
                      groups->end());
    }
    auto* const streams = status.mutable_streams();
    streams->erase(std::remove_if(streams->begin(), streams->end(),
                                  [&](const v1::AgentStream& stream) { return caller.uid != stream.user(); }),
                   streams->end());
    for (v1::AgentChannel& channel : *status.mutable_channels()) {
        if (hidden.contains(channel.task_id())) {
            channel.clear_task_id();
        }
    }
    set_upkeep(status, everything);
}

v1::AgentStatus agent_status(Agent& agent) {
    v1::AgentStatus status;
    status.set_name(agent.config.name);
    status.set_version(std::string(kVersion));
    status.set_interface(agent.interfaces.front().name);
    for (const InterfaceInfo& interface : agent.interfaces) {
        status.add_interfaces(interface.name);
    }
    status.set_address(format_host(agent.member.options.address));
    status.set_control_port(agent.control_port);
    status.set_switch_address(agent.config.switch_address);
    status.set_switch_reachable(agent.member.own_switch && agent.member.own_switch->info(kStatusWait).ok());
    status.set_xdp_mode(agent.config.xdp_mode);
    status.set_bind_mode(agent.bind_mode);
    status.set_workers(agent.workers.size());
    const auto sends = agent.member.sends.list();
    add_channels(agent, sends, status);
    for (const v1::AgentTask& task : agent.member.registry.describe()) {
        *status.add_tasks() = task;
    }
    for (const SendList::Entry& send : sends) {
        *status.add_tasks() = send.task;
    }
    for (const v1::AgentTask& task : agent.member.history.list()) {
        *status.add_ended() = task;
    }
    for (v1::AgentStream& stream : streams_now(agent)) {
        *status.add_streams() = std::move(stream);
    }
    add_groups(agent, status);
    const auto totals = agent.workers.totals();
    add_counters(agent, totals.ok() ? sum_of(*totals) : WorkerTotals(), status);
    status.set_uptime_seconds(std::chrono::duration<double>(Clock::now() - agent.started).count());
    return status;
}

}  // namespace ask
