// SPDX-License-Identifier: Apache-2.0
//
// What a receive gathers once all FINs are in: the workers' tables, the swaps', and the last copy.
#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/member/switch_port.h"
#include "lib/control/receive/receiving.h"
#include "lib/tuples/fetch_codec.h"

namespace ask {
namespace {

constexpr milliseconds kFinalStatsWait{2000};

}  // namespace

// Ends the task on all workers and merges what each of them has.
Result<ResultTable> Receiving::take_table() {
    std::unique_ptr<ResultTable> all;
    for (unsigned i = 0; i < member_.workers.size(); ++i) {
        auto part = member_.workers.close_task(i, task_->instance, false);
        if (!part) {
            return std::move(part).error();
        }
        if (!*part) {
            return Error(Errc::kInternal, "a worker has lost the table of task " + task_->id);
        }
        if (!all) {
            all = std::move(*part);
        } else {
            ASK_TRY(add_part(*all, std::move(**part)), "task " + task_->id);
        }
    }
    on_workers_ = false;
    return std::move(*all);
}

Result<> Receiving::add_part(ResultTable& all, ResultTable part) {
    auto merged = all.merge(part);
    if (merged || !parts_ || merged.error().code() != Errc::kLimit) {
        return merged;
    }
    ASK_PASS(await_part());
    std::swap(all, part);
    return parts_->hand_over(std::move(part));
}

Result<> Receiving::pause_fetching(const TaskSwitch& at, Clock::time_point until) {
    tell_waiting(*at.client);
    return wait_and_handle(until);
}

// What comes of a stream is merged at once, and stays so: the next goes on behind it.
Result<CopyEnd> Receiving::merge_stream(const TaskSwitch& at, bool settled, Merging& merging,
                                        milliseconds wait) {
    const auto take = [&](std::string entries) -> Result<std::uint64_t> {
        auto taken = merging.merger.take(std::move(entries));
        ASK_TRY(taken, "task " + task_->id);
        return *taken;
    };
    const auto expect = [&](const BackSize& size) -> Result<> {
        ASK_TRY(merging.merger.expect(size), "task " + task_->id + ": " + std::to_string(size.entries) +
                                                 " entries of the back level of " + at.client->name());
        return {};
    };
    auto asked = ask_switch(*at.client, [&](CallCancel* cancel) -> Result<CopyEnd> {
        auto end = at.client->stream_copy({.region = {task_->instance, at.nonce},
                                           .mark = at.mark,
                                           .epoch = at.epoch,
                                           .close = merging.close,
                                           .settled = settled,
                                           .skip = merging.merger.entries(),
                                           .wait = wait,
                                           .expect = expect},
                                          take, cancel);
        ASK_TRY(merging.merger.drain(), "task " + task_->id);
        return end;
    });
    ASK_PASS(asked);
    return *std::move(asked);
}

Result<CopyEnd> Receiving::merge_until_deadline(const TaskSwitch& at, bool settled, Merging& merging) {
    const auto give_up_at = Clock::now() + task_->deadline;
    for (;;) {
        auto end = merge_stream(at, settled, merging, at_most(kFetchWait, give_up_at));
        if (end.ok() || merging.merger.broken()) {
            return end;
        }
        // Without a region there is nothing to lose but the switch's counts.
        if (at.aggregators == 0 && merging.merger.entries() == 0) {
            return CopyEnd();
        }
        if (!is_transient(end.error())) {
            return end;
        }
        if (Clock::now() >= give_up_at) {
            return Error(Errc::kDeadline, "what " + at.client->name() +
                                              " has aggregated could not be fetched within " +
                                              seconds_text(task_->deadline) + ": start ask-switchd there");
        }
        ASK_PASS(pause_fetching(at, std::min(Clock::now() + kSessionTick, give_up_at)));
    }
}

// One whose counts fit what was sent. Something may only not have been counted yet, so they are asked for
// once more: what is missing then is lost.
Result<CopyEnd> Receiving::merge_whole(const TaskSwitch& at, Merging& merging) {
    std::vector<FlowAccount> joined;
    std::ranges::copy_if(accounts_, std::back_inserter(joined),
                         [&](const FlowAccount& flow) { return flow.via == at.mark; });
    for (bool settled = false;; settled = true) {
        auto copy = merge_until_deadline(at, settled, merging);
        ASK_PASS(copy);
        const auto mismatch = at.aggregators == 0
                                  ? std::nullopt
                                  : compare_flows(joined, at.client->name(), copy->flows, settled);
        if (!mismatch) {
            return copy;
        }
        if (settled || !mismatch->may_settle) {
            return refuse_result(*mismatch);
        }
    }
}

// Those that no region was on the way of.
Result<> Receiving::check_direct_flows() {
    for (const FlowAccount& flow : accounts_) {
        const TaskSwitch* const at = find_switch(task_->switches, flow.via);
        const auto mismatch = at != nullptr && at->aggregators > 0 ? std::nullopt : compare_flow(flow);
        if (mismatch) {
            return refuse_result(*mismatch);
        }
    }
    return {};
}

Error Receiving::refuse_result(const Mismatch& mismatch) {
    member_.counters.add(AgentCounter::k_results_refused);
    return mismatch.error;
}

// Until the swap under way, if any, is over.
Result<> Receiving::await_swapper(const TaskSwitch& at) {
    Clock::time_point next_tick = Clock::now() + kSessionTick;
    while (!at.swapper->ended()) {
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            tell_waiting(*at.client);
        }
        ASK_PASS(wait_and_handle(next_tick));
    }
    tell_going_on();
    return {};
}

// What the swaps have brought. After this the last copy of each switch is that of its epoch, and stays so.
Result<> Receiving::merge_swapped(ResultTable& table) {
    for (const TaskSwitch& at : task_->switches) {
        if (at.swapper) {
            at.swapper->finish(Clock::now() + task_->deadline);
        }
    }
    for (TaskSwitch& at : task_->switches) {
        if (at.swapper) {
            ASK_PASS(or_lost(at, merge_swapped(table, at)));
        }
    }
    return {};
}

Result<> Receiving::merge_swapped(ResultTable& table, TaskSwitch& at) {
    ASK_PASS(await_swapper(at));
    auto outcome = at.swapper->take();
    ASK_PASS(outcome);
    at.epoch = outcome->epoch;
    fetched_ += outcome->fetched;
    auto merged = table.merge(outcome->table);
    return merged ? std::move(merged) : std::move(merged).error().with_context("task " + task_->id);
}

Result<> Receiving::merge_switch_copies(ResultTable& table) {
    for (const TaskSwitch& at : task_->switches) {
        const bool used = std::ranges::find(accounts_, at.mark, &FlowAccount::via) != accounts_.end();
        // One that was opened for a sender who then joined without it has nothing.
        if (used || at.epoch > 0 || !task_->own) {
            ASK_PASS(or_lost(at, merge_switch_copy(table, at)));
        }
    }
    return {};
}

Result<> Receiving::or_lost(const TaskSwitch& at, Result<> merged) {
    if (!merged && merged.error().code() == Errc::kSwitchLost) {
        note_lost(at.mark);
    }
    return merged;
}

// Each entry once. If it cannot be had whole, the task fails, and its table with it.
Result<> Receiving::merge_switch_copy(ResultTable& table, const TaskSwitch& at) {
    // Somebody who is missing may still be sending.
    const bool close = member_.registry.with(*task_, [](const ReceiveTask& task) {
        return std::ranges::any_of(task.senders,
                                   [](const TaskSender& sender) { return bool(sender.missing); });
    });
    std::function<Result<>()> make_room;
    if (parts_) {
        make_room = [&] { return parts_->make_room(table); };
    }
    Merging merging{.merger = CopyMerger(table, std::move(make_room)), .close = close};
    const auto begun = Clock::now();
    const auto copy = merge_whole(at, merging);
    ASK_PASS(copy);
    spdlog::info("task {}: {} entries of {} merged in {:.3f} s", task_->id, merging.merger.entries(),
                 at.client->name(), seconds_since(begun));
    fetched_ += merging.merger.entries();
    note_switch_counts(*copy);
    return {};
}

void Receiving::note_switch_counts(const CopyEnd& copy) {
    member_.registry.with(*task_, [&](ReceiveTask& task) {
        for (const v1::FetchFlow& flow : copy.flows) {
            for (TaskSender& sender : task.senders) {
                if (sender.flow.channel.host == flow.channel().host() &&
                    sender.flow.channel.port == flow.channel().port()) {
                    add_switch_part(sender.stats, flow.stats());
                }
            }
        }
    });
}

// All that a flow brings is in before its FIN.
Result<> Receiving::note_receiver_counts() {
    const auto senders = member_.registry.with(*task_, [](const ReceiveTask& task) { return task.senders; });
    for (const TaskSender& sender : senders) {
        const auto stats = member_.workers.flow_stats(task_->instance, sender.flow.channel);
        ASK_PASS(stats);
        note_receiver_part(sender, *stats);
        packets_of_[sender.sender] = stats->last_seq - sender.flow.first_seq + 1;
        accounts_.push_back({.sender = sender.name,
                             .channel = sender.flow.channel,
                             .incarnation = sender.flow.incarnation,
                             .via = sender.flow.mark,
                             .nonce = sender.flow_nonce,
                             .sent = stats->fin ? std::optional(stats->items_sent) : std::nullopt,
                             .received = stats->items()});
    }
    return {};
}

// A sender tells its final figures as soon as its FIN is acknowledged: those that count as many packets as
// its seqs. They are worth a moment, not a failure.
void Receiving::wait_for_final_stats() {
    const auto until = Clock::now() + std::min(kFinalStatsWait, task_->deadline);
    const auto complete = [&](const ReceiveTask& task) {
        return std::ranges::all_of(task.senders, [&](const TaskSender& sender) {
            return sender.missing || sender.stats.packets_sent() >= packets_of_[sender.sender];
        });
    };
    while (!member_.registry.with(*task_, complete) && Clock::now() < until) {
        io_.wait_mailbox(until);
        [[maybe_unused]] const auto events = io_.mailbox()->take();
    }
}

}  // namespace ask
