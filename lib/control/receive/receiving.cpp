// SPDX-License-Identifier: Apache-2.0
//
// The way of a receive from step to step, and what its steps share.
#include "lib/control/receive/receiving.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"

namespace ask {
namespace {

constexpr milliseconds kProbeWait{1000};

}  // namespace

Receiving::Receiving(Member& member, SessionIo& io, v1::OpenReceive request)
    : member_(member), io_(io), request_(std::move(request)), task_(std::make_shared<ReceiveTask>()) {}

void Receiving::run() {
    auto result = run_within_limits([this] { return run_steps(); });
    if (!result) {
        give_up(result.error());
    }
    if (task_->asking) {
        member_.plans.end(task_->instance, lost_relays_.empty() ? "" : lost_relays_.front(),
                          result ? "" : result.error().text());
    }
}

Result<> Receiving::run_steps() {
    if (auto opened = open(); !opened) {
        return opened;
    }
    if (auto collected = collect(); !collected) {
        return collected;
    }
    return commit();
}

Result<> Receiving::commit() {
    show_progress("fetching");
    const auto begun = Clock::now();
    // First: a worker may forget flows of a task that it has closed.
    ASK_PASS(note_receiver_counts());
    auto table = take_table();
    if (!table) {
        return std::move(table).error();
    }
    ASK_PASS(check_direct_flows());
    if (auto merged = merge_swapped(*table); !merged) {
        return merged;
    }
    if (auto merged = merge_switch_copies(*table); !merged) {
        return merged;
    }
    if (is_window()) {
        note_need(*table);
    }
    if (request_.partial()) {
        table->finish_wide();
    } else if (auto fits = table->finish(); !fits) {
        return std::move(fits).error().with_context("task " + task_->id);
    }
    if (parts_) {
        ASK_PASS(await_part());
    }
    wait_for_final_stats();
    auto result = seal(std::move(*table));
    ASK_PASS(result);
    member_.registry.computed(*task_);
    spdlog::log(task_->log_level(), "task {}: computed, {:.3f} s after the last FIN", task_->id,
                seconds_since(begun));
    hand_over_or_keep(*result);
    return {};
}

// Small windows are looked at as well: it is then that the next one is to have less.
void Receiving::note_need(const ResultTable& table) {
    const auto keys = table.keys_by_length();
    member_.registry.with(*task_, [&](const ReceiveTask& task) { task.here->need.note(keys); });
}

void Receiving::tell_waiting(const SwitchPort& at) {
    const std::string text = "waiting for " + at.name();
    member_.registry.set_trouble(*task_, text);
    show_progress(text);
    told_waiting_ = true;
}

void Receiving::tell_going_on() {
    if (std::exchange(told_waiting_, false)) {
        member_.registry.set_trouble(*task_, "");
    }
}

Result<std::optional<Error>> Receiving::probe_switch(const TaskSwitch& at) {
    const milliseconds wait = std::min(kProbeWait, task_->deadline / 2);
    auto info = ask_switch(*at.client, [&](CallCancel* cancel) { return at.client->info(wait, cancel); });
    ASK_PASS(info);
    const bool away = !info->ok() && is_transient(info->error());
    return away ? std::optional<Error>(info->error()) : std::nullopt;
}

FlowRxStats Receiving::flow_stats(ChannelId channel) const {
    const auto stats = member_.workers.flow_stats(task_->instance, channel);
    return stats.ok() ? *stats : FlowRxStats();
}

void Receiving::show_progress(const std::string& state) {
    v1::Progress progress;
    progress.set_state(state);
    member_.registry.with(*task_, [&](const ReceiveTask& task) {
        std::uint32_t joined = 0;
        std::uint32_t finished = 0;
        for (const TaskSender& sender : task.senders) {
            joined += sender.joined ? 1 : 0;
            finished += sender.fin ? 1 : 0;
            progress.set_cannot_repeat(progress.cannot_repeat() || (sender.joined && !sender.can_repeat));
            add_stats(*progress.mutable_stats(), sender.stats);
        }
        add_running_parts(*progress.mutable_stats(), task.switches);
        progress.set_table_bytes_most(parts_ ? parts_->bytes_most() : 0);
        progress.set_senders_joined(joined);
        progress.set_senders_finished(finished);
    });
    io_.progress(progress);
}

}  // namespace ask
