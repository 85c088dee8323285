// SPDX-License-Identifier: Apache-2.0
//
// A worker's receiving tasks: their tables, their flows, and what the receiver makes of a packet.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "agent/worker.h"

namespace ask {

Result<> WorkerCore::open_task(std::uint64_t instance, ResultTable table, std::shared_ptr<Mailbox> mailbox,
                               bool in_parts) {
    auto [at, fresh] = tasks_.try_emplace(instance);
    if (!fresh) {
        return Error(Errc::kExists, "task instance is open on this worker");
    }
    at->second.table = std::make_unique<ResultTable>(std::move(table));
    at->second.mailbox = std::move(mailbox);
    at->second.in_parts = in_parts;
    return {};
}

// The sink goes on with the table that is at the same place.
Result<ResultTable> WorkerCore::exchange_table(std::uint64_t instance, ResultTable fresh) {
    const auto task = tasks_.find(instance);
    if (task == tasks_.end()) {
        return Error(Errc::kUnknown, "the task has ended");
    }
    task->second.full = false;
    std::swap(*task->second.table, fresh);
    return fresh;
}

Result<> WorkerCore::join(const FlowParams& flow, std::shared_ptr<TaskArrivals> arrivals) {
    const auto task = tasks_.find(flow.instance);
    if (task == tasks_.end()) {
        return Error(Errc::kUnknown, "the task has ended");
    }
    ASK_PASS(validate(flow.geometry));
    std::optional<TableSink>& sink = task->second.sink;
    if (!sink) {
        sink.emplace(flow.geometry, flow.op, *task->second.table);
    }
    ASK_PASS(receiver_.join(flow, &*sink));
    if (arrivals) {
        task->second.arrivals[flow.channel] = std::move(arrivals);
    }
    return {};
}

std::unique_ptr<ResultTable> WorkerCore::close_task(std::uint64_t instance, bool failed) {
    receiver_.end_task(instance, failed);
    auto node = tasks_.extract(instance);
    return node.empty() || failed ? nullptr : std::move(node.mapped().table);
}

FlowRxStats WorkerCore::flow_stats(std::uint64_t instance, ChannelId channel) const {
    return receiver_.flow_stats(instance, channel);
}

std::size_t WorkerCore::accept(std::span<const std::byte> payload, Ports ports, bool ecn_ce) {
    const RxVerdict verdict = receiver_.on_packet(payload, ports, ecn_ce, ack_);
    if (verdict.counter == ReceiverCounter::k_accepted_data) {
        note_arrival(verdict);
    }
    if (verdict.fin || verdict.counter == ReceiverCounter::k_table_full) {
        const auto task = tasks_.find(verdict.instance);
        if (task != tasks_.end() && verdict.fin) {
            task->second.mailbox->post(SessionEvent{SessionEvent::Kind::kFin, verdict.channel, {}});
        } else if (task != tasks_.end()) {
            note_full(task->second, verdict.channel);
        }
    }
    return verdict.ack_bytes;
}

void WorkerCore::note_full(Task& task, ChannelId channel) {
    if (!task.in_parts) {
        task.mailbox->post(
            SessionEvent{SessionEvent::Kind::kTableFull, channel,
                         Error(Errc::kLimit,
                               "the result does not fit the agent's memory for tables: raise "
                               "table_limit_mib, or quota_table_mib if it is one user's, or receive "
                               "fewer distinct keys")});
    } else if (!std::exchange(task.full, true)) {
        task.mailbox->post(SessionEvent{SessionEvent::Kind::kPartFull, channel, {}});
    }
}

void WorkerCore::note_arrival(const RxVerdict& verdict) {
    const auto task = tasks_.find(verdict.instance);
    if (task == tasks_.end() || task->second.arrivals.empty()) {
        return;
    }
    const auto flow = task->second.arrivals.find(verdict.channel);
    if (flow != task->second.arrivals.end()) {
        flow->second->note(verdict);
    }
}

}  // namespace ask
