// SPDX-License-Identifier: Apache-2.0
//
// The way of a receive from step to step, and what its steps share.
#include "agent/receive_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/convert.h"
#include "lib/control/member/patience.h"

namespace ask {
namespace {

constexpr milliseconds kProbeWait{1000};

}  // namespace

ReceiveSession::ReceiveSession(Agent& agent, SessionIo& io, v1::OpenReceive request)
    : agent_(agent), io_(io), request_(std::move(request)), task_(std::make_shared<ReceiveTask>()) {}

void ReceiveSession::run() {
    if (auto result = run_within_limits([this] { return run_steps(); }); !result) {
        give_up(result.error());
    }
}

Result<> ReceiveSession::run_steps() {
    if (auto opened = open(); !opened) {
        return opened;
    }
    if (auto collected = collect(); !collected) {
        return collected;
    }
    return commit();
}

Result<> ReceiveSession::commit() {
    agent_.registry.with(*task_, [](ReceiveTask& task) { task.phase = TaskPhase::kFetching; });
    show_progress("fetching");
    auto table = take_table();
    if (!table) {
        return std::move(table).error();
    }
    note_receiver_counts();
    if (auto merged = merge_swapped(*table); !merged) {
        return merged;
    }
    if (auto merged = merge_switch_copy(*table); !merged) {
        return merged;
    }
    if (auto fits = table->finish(); !fits) {
        return std::move(fits).error().with_context("task " + task_->id);
    }
    wait_for_final_stats();
    auto result = seal(std::move(*table));
    ASK_PASS(result);
    agent_.registry.computed(*task_);
    spdlog::info("task {}: computed", task_->id);
    hand_over_or_keep(*result);
    return {};
}

void ReceiveSession::tell_waiting(bool waiting) {
    if (waiting && agent_.switch_client) {
        const std::string text = "waiting for " + agent_.switch_client->name();
        agent_.registry.set_trouble(*task_, text);
        show_progress(text);
    }
    if (!waiting && told_waiting_) {
        agent_.registry.set_trouble(*task_, "");
    }
    told_waiting_ = waiting;
}

Result<std::optional<Error>> ReceiveSession::probe_switch() {
    if (!task_->switch_client) {
        return std::optional<Error>();
    }
    const milliseconds wait = std::min(kProbeWait, task_->deadline / 2);
    auto info = ask_switch([&](CallCancel* cancel) { return task_->switch_client->info(wait, cancel); });
    ASK_PASS(info);
    const bool away = !info->ok() && is_transient(info->error());
    return away ? std::optional<Error>(info->error()) : std::nullopt;
}

FlowRxStats ReceiveSession::flow_stats(ChannelId channel) const {
    const auto stats =
        agent_.workers.owner(channel).call([instance = task_->instance, channel](WorkerCore& core) {
            return core.flow_stats(instance, channel);
        });
    return stats.ok() ? *stats : FlowRxStats();
}

void ReceiveSession::show_progress(const std::string& state) {
    v1::Progress progress;
    progress.set_state(state);
    agent_.registry.with(*task_, [&](const ReceiveTask& task) {
        std::uint32_t joined = 0;
        std::uint32_t finished = 0;
        for (const TaskSender& sender : task.senders) {
            joined += sender.joined ? 1 : 0;
            finished += sender.fin ? 1 : 0;
            add_stats(*progress.mutable_stats(), sender.stats);
        }
        if (!has_switch_part(progress.stats())) {
            add_switch_part(*progress.mutable_stats(), task.switch_part);
        }
        progress.set_senders_joined(joined);
        progress.set_senders_finished(finished);
    });
    io_.progress(progress);
}

}  // namespace ask
