// SPDX-License-Identifier: Apache-2.0
//
// How a receive ends: its result is taken, kept or lost, or it has failed.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/base/log_fields.h"
#include "lib/base/probe.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/receiving.h"

namespace ask {
namespace {

constexpr milliseconds kCloseWait{2000};

}  // namespace

// Of a task on senders' own switches, which its application could not be told of when it was opened.
void Receiving::describe_switches(const ReceiveTask& task, v1::Done& done) {
    if (!task.own) {
        return;
    }
    for (const TaskSwitch& at : task.switches) {
        v1::SwitchOfTask& entry = *done.add_switches();
        entry = TaskRegistry::describe_locked(task, at);
        entry.set_swaps(at.epoch);
    }
    for (v1::SenderWithout& without : TaskRegistry::without_locked(task)) {
        *done.add_without() = std::move(without);
    }
}

// Those that never joined the run: the others are named as senders.
void Receiving::add_missing_members(const ReceiveTask& task, v1::Done& done) {
    for (const Stream::Missing& member : task.here->stream.all_missing(task.window)) {
        if (std::ranges::find(task.senders, member.member, &TaskSender::member) == task.senders.end()) {
            v1::Missing& missing = *done.add_missing();
            missing.set_name(member.name);
            missing.set_senders(1);
            missing.set_reason(member.reason);
        }
    }
}

v1::Done Receiving::describe_result(std::uint64_t keys, std::uint64_t bytes) {
    v1::Done done;
    Clock::time_point first_join = Clock::now();
    member_.registry.with(*task_, [&](const ReceiveTask& task) {
        for (const TaskSender& sender : task.senders) {
            first_join = std::min(first_join, sender.joined_at);
            *done.add_per_sender() = sender.stats;
            done.add_sender_names(sender.name);
            add_stats(*done.mutable_stats(), sender.stats);
            if (sender.missing) {
                v1::Missing& missing = *done.add_missing();
                missing.set_name(sender.name);
                missing.set_senders(1);
                missing.set_reason(*sender.missing);
            }
        }
        describe_switches(task, done);
        if (request_.partial()) {
            for (v1::FlowsFrom& flows : TaskRegistry::flows_locked(task)) {
                *done.add_flows() = std::move(flows);
            }
        }
        for (v1::RelayOfTask& relay : TaskRegistry::relays_locked(task)) {
            *done.add_relays() = std::move(relay);
        }
        if (task.here) {
            add_missing_members(task, done);
        } else if (task.senders.size() < task.senders_expected) {
            v1::Missing& missing = *done.add_missing();
            missing.set_senders(task.senders_expected - static_cast<std::uint32_t>(task.senders.size()));
            missing.set_reason("did not join within " + seconds_text(task.deadline));
        }
    });
    done.set_seconds(std::chrono::duration<double>(Clock::now() - first_join).count());
    done.set_result_bytes(bytes);
    done.set_result_keys(keys);
    done.set_fetched(fetched_);
    done.set_swaps(swaps(task_->switches));
    done.set_op(task_->op);
    done.set_table_bytes_most(parts_ ? parts_->bytes_most() : 0);
    return done;
}

// From here on the result is independent of what it was made from.
Result<std::shared_ptr<KeptResult>> Receiving::seal(ResultTable table) {
    const std::uint64_t keys = table.size();
    auto sealed = member_.tables.seal(std::move(table));
    ASK_PASS(sealed);
    auto result = std::make_shared<KeptResult>();
    result->table = std::move(*sealed);
    result->done = describe_result(keys, result->table->bytes());
    result->done.set_keep_seconds(static_cast<std::uint32_t>(member_.kept.time().count()));
    result->ready = ready_;
    result->task = member_.registry.describe(*task_);
    result->mailbox = task_->mailbox;
    return result;
}

// Senders succeed when the result was taken, whoever takes it, and not before.
void Receiving::hand_over_or_keep(const std::shared_ptr<KeptResult>& result) {
    stop_swappers();
    io_.expect_no_answers();
    const HandedOver handed = hand_over(io_, *result,
                                        {.deadline = task_->deadline,
                                         .on_sign = [] {},
                                         // Nothing that is there is needed any more.
                                         .on_waiting = [this] { close_on_switches(); }});
    if (handed == HandedOver::kTaken) {
        end_taken(result->done);
        confirm_taken(io_);
    } else if (io_.given_up()) {
        end_given_up();
    } else if (request_.partial() || is_window() || handed == HandedOver::kStopping ||
               handed == HandedOver::kCancelled || member_.kept.time().count() == 0) {
        end_lost();
    } else {
        member_.kept.keep(result);
        note_open();
        member_.registry.free_id(task_);
        close_on_switches();
        if (handed == HandedOver::kGone) {
            wait_for_again(*result);
        }
        end_kept(*result);
    }
    close_on_switches();
}

// Until an --again has taken it, the time of the senders is over, it is gone, or the daemon ends.
void Receiving::wait_for_again(const KeptResult& result) {
    while (!io_.stopping()) {
        const KeptResults::Look look = member_.kept.look(result);
        const auto give_up_at = look.last_sign + task_->deadline;
        if (look.state == KeptResult::State::kTaken || look.state == KeptResult::State::kDropped ||
            Clock::now() >= give_up_at) {
            return;
        }
        io_.wait_without_application(give_up_at);
    }
}

void Receiving::end_taken(const v1::Done& done) {
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_COMMITTED);
    end_task(std::move(outcome));
    if (!is_window()) {
        member_.history.add(member_.registry.describe(*task_));
    }
    member_.totals.committed(TaskRole::kReceiver, done.seconds(), done.stats(), done.result_keys(),
                             done.result_bytes());
    ASK_PROBE(receive_committed, task_->id.c_str(), task_->instance, done.stats().tuples_in(),
              done.result_keys(), done.result_bytes());
    const LogAbout how = LogAbout::code(0);
    spdlog::log(task_->log_level(), "task {}: committed: {}", task_->id, figures_of(done));
}

void Receiving::end_kept(KeptResult& result) {
    const std::string& host = member_.options.name;
    const std::string not_taken = "task " + task_->id + ": computed, but not taken: ";
    switch (member_.kept.stop_waiting(result)) {
        case KeptResult::State::kTaken:
            return end_taken(result.done);
        case KeptResult::State::kDropped:
            return end_failed({Errc::kAborted, not_taken + host + " no longer keeps it: run the task again"});
        case KeptResult::State::kKept:
        case KeptResult::State::kHandedOut:
            if (io_.stopping()) {
                return end_lost();
            }
            const Error error(Errc::kNotTaken, not_taken + "kept at " + host + " until " + result.until_text +
                                                   "; `ask-recv --task " + task_->id +
                                                   " --again` there takes it");
            end_failed(error);
            // One that was suspended may come back.
            io_.fail_at_once(error);
    }
}

// There is no result any more that anybody could take.
void Receiving::end_lost() {
    const std::string why = io_.stopping()    ? stopping_error().text()
                            : io_.cancelled() ? "cancelled by askctl task cancel"
                            : is_window()     ? "windows are not kept, but run again"
                                              : "results are not kept (keep_result_seconds = 0)";
    const Error error(is_window() ? Errc::kRunAgain : Errc::kAborted,
                      "task " + task_->id + ": computed, but not taken at " + member_.options.name +
                          ", and " + why + ": run the task again");
    end_failed(error);
    io_.fail_at_once(error);
}

void Receiving::end_given_up() {
    const Error error = Error(*io_.given_up()).with_context("task " + task_->id);
    end_failed(error);
    io_.fail_at_once(error);
}

void Receiving::end_failed(const Error& error) {
    note_failed(error, error.text());
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_FAILED);
    outcome.set_code(static_cast<std::int32_t>(error.code()));
    outcome.set_error(error.text());
    end_task(std::move(outcome));
    member_.history.add(member_.registry.describe(*task_));
}

void Receiving::note_failed(const Error& error, const std::string& line) {
    member_.totals.failed(TaskRole::kReceiver, error.code());
    ASK_PROBE(receive_failed, task_->id.c_str(), task_->instance, static_cast<int>(error.code()),
              line.c_str());
    const LogAbout how = LogAbout::code(static_cast<int>(error.code()));
    spdlog::warn("{}", line);
}

void Receiving::stop_swappers() {
    for (TaskSwitch& at : task_->switches) {
        at.swapper.reset();
    }
}

// From here on the id is free.
void Receiving::end_task(v1::Outcome outcome) {
    note_open();
    member_.registry.end(task_, std::move(outcome));
}

// Who takes the id next, at once perhaps, closes before what this one has not closed by then.
void Receiving::note_open() {
    for (const std::string& address : std::exchange(perhaps_open_, {})) {
        leave_open(address);
    }
    for (const TaskSwitch& at : task_->switches) {
        if (!at.closed) {
            leave_open(at.client->address());
        }
    }
}

void Receiving::close_on_switches() {
    for (const std::string& address : std::exchange(perhaps_open_, {})) {
        leave_open(address);
    }
    for (TaskSwitch& at : task_->switches) {
        if (std::exchange(at.closed, true)) {
            continue;
        }
        const milliseconds wait = std::min(kCloseWait, task_->deadline);
        if (auto closed = at.client->close_task(task_->instance, wait); !closed) {
            spdlog::warn("task {}: {}", task_->id, closed.error().text());
            leave_open(at.client->address());
        } else {
            member_.left_open.remove(left_open_at(at.client->address()));
        }
    }
}

LeftOpen::Task Receiving::left_open_at(const std::string& address) const {
    return {.instance = task_->instance, .address = address, .id = task_->id};
}

void Receiving::leave_open(const std::string& address) {
    forget_open(address);
    if (!member_.left_open.add(left_open_at(address), Clock::now())) {
        spdlog::warn(
            "more than {} tasks are to be closed at switches: of the oldest the lease runs out there",
            LeftOpen::kMost);
    }
}

void Receiving::forget_open(const std::string& address) {
    std::erase(perhaps_open_, address);
}

// By every address that senders know it by: each of these would be tried again.
void Receiving::note_lost(Mark mark) {
    lost_switches_ = member_.registry.with(*task_, [mark](const ReceiveTask& task) {
        return task.own ? task.own->addresses_of(mark) : std::vector<std::string>();
    });
}

// What a switch lost can be had again if everybody concerned can begin again.
Error Receiving::explain_loss(const Error& loss) const {
    if (request_.partial()) {
        return loss;  // the receiver's word decides
    }
    std::string unable;
    if (!request_.can_repeat()) {
        unable = "this receive does not run again without the switch";
    } else if (added_) {
        member_.registry.with(*task_, [&](const ReceiveTask& task) {
            for (const TaskSender& sender : task.senders) {
                if (!sender.can_repeat && !sender.missing) {
                    unable = "sender " + sender.name + " cannot send again what came through a pipe";
                }
            }
        });
    }
    return unable.empty()
               ? Error(Errc::kRunAgain, loss.text() + ": the task begins again without " +
                                            (!lost_switches_.empty() ? "switch " + lost_switches_.front()
                                             : task_->own            ? "switches"
                                             : !lost_relays_.empty() ? "relay " + lost_relays_.front()
                                                                     : "the switch"))
               : Error(Errc::kSwitchLost, loss.text() + ", and " + unable + ": run the task again");
}

void Receiving::give_up(const Error& reason) {
    stop_swappers();
    const Error error = is_window()                          ? Error(Errc::kRunAgain, reason.text())
                        : reason.code() == Errc::kSwitchLost ? explain_loss(reason)
                                                             : reason;
    note_failed(error, "task " + clean_name(request_.task_id()) + ": receive failed: " + error.text());
    if (added_) {
        v1::Outcome outcome;
        outcome.set_state(v1::Outcome::STATE_FAILED);
        outcome.set_code(static_cast<std::int32_t>(error.code()));
        outcome.set_error("receiver " + member_.options.name + ": " + error.text());
        end_task(std::move(outcome));
        member_.history.add(member_.registry.describe(*task_));
    }
    if (task_->here && !added_) {
        member_.registry.fail_run(*task_);
    }
    if (on_workers_) {
        for (unsigned i = 0; i < member_.workers.size(); ++i) {
            [[maybe_unused]] const auto closed = member_.workers.close_task(i, task_->instance, true);
        }
    }
    // First, because whoever begins again uses the same id.
    if (added_ && error.code() == Errc::kRunAgain) {
        close_on_switches();
    }
    io_.fail(error, lost_relays_, lost_switches_);
    if (added_ && error.code() != Errc::kRunAgain) {
        close_on_switches();
    }
}

}  // namespace ask
