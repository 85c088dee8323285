// SPDX-License-Identifier: Apache-2.0
#include "agent/workers.h"

#include <utility>

namespace ask {
namespace {

// What the command has come to, or why it has not run.
template <typename Value>
Result<Value> flat(Result<Result<Value>> answer) {
    return answer ? *std::move(answer) : Result<Value>(std::move(answer).error());
}

// By worker.
std::vector<std::vector<XskSocket>> shares_of(std::vector<XskSocket> sockets, std::size_t workers) {
    std::vector<std::vector<XskSocket>> shares(workers);
    for (XskSocket& socket : sockets) {
        shares[socket.queue() % workers].push_back(std::move(socket));
    }
    return shares;
}

}  // namespace

Workers::Workers(const Options& options, std::vector<XskSocket> sockets) : arenas_(options.arena_limit) {
    std::vector<std::vector<XskSocket>> shares = shares_of(std::move(sockets), options.workers);
    for (unsigned index = 0; index < options.workers; ++index) {
        WorkerCore::Options core;
        core.own_address = options.own_address;
        core.sender = options.sender;
        core.index = index;
        core.workers = options.workers;
        core.busy_poll = options.busy_poll;
        core.push = [this](unsigned worker, InboxPacket packet) {
            return workers_[worker]->push(std::move(packet));
        };
        workers_.push_back(std::make_unique<Worker>(std::move(core), std::move(shares[index])));
    }
}

Result<> Workers::start() {
    for (const auto& worker : workers_) {
        if (auto started = worker->start(); !started) {
            return started;
        }
    }
    return {};
}

void Workers::stop() {
    for (const auto& worker : workers_) {
        worker->stop();
    }
}

Result<> Workers::change_link(const LinkChange& change, std::vector<XskSocket> fresh) {
    std::vector<std::vector<XskSocket>> shares = shares_of(std::move(fresh), workers_.size());
    for (std::size_t i = 0; i < workers_.size(); ++i) {
        const auto share = std::make_shared<std::vector<XskSocket>>(std::move(shares[i]));
        ASK_PASS(flat(workers_[i]->call(
            [change, share](WorkerCore& core) { return core.change_link(change, std::move(*share)); })));
    }
    return {};
}

std::uint64_t Workers::counter(AgentCounter counter) const {
    std::uint64_t sum = 0;
    for (const auto& worker : workers_) {
        sum += worker->counters().get(counter);
    }
    return sum;
}

Result<> Workers::add_channel(ChannelId channel, std::uint32_t incarnation) {
    return flat(owner(channel).call(
        [channel, incarnation](WorkerCore& core) { return core.add_channel(channel.port, incarnation); }));
}

Result<std::shared_ptr<TupleIntake>> Workers::make_intake(std::size_t bytes) {
    auto ring = TupleRingConsumer::create(bytes);
    ASK_PASS(ring);
    return std::shared_ptr<TupleIntake>(std::make_shared<RingIntake>(std::move(*ring)));
}

Result<> Workers::begin(StreamStart start) {
    Worker& worker = owner(start.flow.channel);
    return flat(worker.call(
        [start = std::move(start)](WorkerCore& core) mutable { return core.begin(std::move(start)); }));
}

Result<> Workers::set_addresses(ChannelId channel, const UdpAddresses& addresses) {
    return owner(channel).call(
        [channel, addresses](WorkerCore& core) { core.set_addresses(channel.port, addresses); });
}

Result<> Workers::finish(ChannelId channel) {
    return owner(channel).call([channel](WorkerCore& core) { core.finish(channel.port); });
}

Result<SenderStats> Workers::end(ChannelId channel) {
    return owner(channel).call([channel](WorkerCore& core) { return core.end(channel.port); });
}

Result<SenderStats> Workers::abandon(ChannelId channel, std::uint32_t new_incarnation) {
    return owner(channel).call(
        [channel, new_incarnation](WorkerCore& core) { return core.abandon(channel.port, new_incarnation); });
}

Result<StreamState> Workers::stream_state(ChannelId channel) {
    return owner(channel).call([channel](WorkerCore& core) { return core.stream_state(channel.port); });
}

Result<> Workers::open_task(unsigned worker, std::uint64_t instance, ResultTable table,
                            std::shared_ptr<Mailbox> mailbox, bool in_parts) {
    const auto shared = std::make_shared<ResultTable>(std::move(table));
    return flat(at(worker).call([instance, shared, mailbox = std::move(mailbox), in_parts](WorkerCore& core) {
        return core.open_task(instance, std::move(*shared), mailbox, in_parts);
    }));
}

Result<ResultTable> Workers::exchange_table(std::uint64_t instance, ChannelId channel, ResultTable fresh) {
    const auto shared = std::make_shared<ResultTable>(std::move(fresh));
    auto full = owner(channel).call(
        [instance, shared](WorkerCore& core) { return core.exchange_table(instance, std::move(*shared)); });
    ASK_PASS(full);
    return *std::move(full);
}

Result<> Workers::join(const FlowParams& flow, std::shared_ptr<TaskArrivals> arrivals) {
    return flat(owner(flow.channel).call([flow, arrivals = std::move(arrivals)](WorkerCore& core) {
        return core.join(flow, arrivals);
    }));
}

Result<std::unique_ptr<ResultTable>> Workers::close_task(unsigned worker, std::uint64_t instance,
                                                         bool failed) {
    return at(worker).call(
        [instance, failed](WorkerCore& core) { return core.close_task(instance, failed); });
}

Result<FlowRxStats> Workers::flow_stats(std::uint64_t instance, ChannelId channel) {
    return owner(channel).call(
        [instance, channel](WorkerCore& core) { return core.flow_stats(instance, channel); });
}

Result<std::shared_ptr<GroupMemory>> Workers::make_memory(std::size_t arena_bytes, std::uint32_t user) {
    return SharedGroupMemory::make(arena_bytes, arenas_, user);
}

// Its packets come in at any worker, who hands them over.
Result<> Workers::route_group(std::uint64_t instance, std::optional<unsigned> worker) {
    for (const auto& one : workers_) {
        ASK_PASS(one->call([instance, worker](WorkerCore& core) { core.route_group(instance, worker); }));
    }
    return {};
}

Result<> Workers::begin_group(GroupStart start) {
    const std::uint64_t instance = start.terms.instance;
    const ChannelId channel = start.terms.seats[start.rank].channel;
    ASK_PASS(flat(owner(channel).call(
        [start = std::move(start)](WorkerCore& core) { return core.begin_group(start); })));
    return route_group(instance, owner_of(channel, size()));
}

Result<GroupState> Workers::group_state(std::uint64_t instance, ChannelId channel) {
    return owner(channel).call([instance](WorkerCore& core) { return core.group_state(instance); });
}

Result<> Workers::set_fan_out(std::uint64_t instance, ChannelId channel, bool fan_out) {
    return owner(channel).call(
        [instance, fan_out](WorkerCore& core) { core.set_fan_out(instance, fan_out); });
}

Result<> Workers::settle_group(std::uint64_t instance, ChannelId channel, std::uint64_t last,
                               std::uint64_t dead) {
    return owner(channel).call(
        [instance, last, dead](WorkerCore& core) { core.settle_group(instance, last, dead); });
}

Result<> Workers::end_group(std::uint64_t instance, ChannelId channel) {
    ASK_PASS(route_group(instance, std::nullopt));
    return owner(channel).call([instance](WorkerCore& core) { core.end_group(instance); });
}

Result<std::vector<WorkerTotals>> Workers::totals() {
    std::vector<WorkerTotals> all;
    for (const auto& worker : workers_) {
        auto totals = worker->call([](WorkerCore& core) { return core.totals(); });
        ASK_PASS(totals);
        totals->inbox_packets = worker->inbox_packets();
        all.push_back(*totals);
    }
    return all;
}

WorkerTotals sum_of(std::span<const WorkerTotals> workers) {
    WorkerTotals sum;
    for (const WorkerTotals& worker : workers) {
        for (std::size_t i = 0; i < sum.receiver.size(); ++i) {
            sum.receiver[i] += worker.receiver[i];
        }
        for (std::size_t i = 0; i < sum.xsk.size(); ++i) {
            sum.xsk[i] += worker.xsk[i];
        }
        values::add(sum.members, worker.members);
        values::add(sum.collectors, worker.collectors);
        add(sum.senders, worker.senders);
        sum.ack_times.add(worker.ack_times);
        sum.streams += worker.streams;
        sum.in_flight += worker.in_flight;
        sum.frames_sending += worker.frames_sending;
        sum.inbox_packets += worker.inbox_packets;
    }
    return sum;
}

}  // namespace ask
