// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/registry.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "lib/base/wall_clock.h"
#include "lib/control/member/convert.h"

namespace ask {
namespace {

// Outcomes kept for senders that have not asked yet.
constexpr std::size_t kMaxEnded = 4096;

}  // namespace

std::shared_ptr<ReceiveTask> TaskRegistry::find_locked(std::uint64_t instance) {
    const auto at = by_instance_.find(instance);
    return at == by_instance_.end() ? nullptr : at->second;
}

TaskSender* TaskRegistry::sender_of(ReceiveTask& task, std::uint64_t sender) {
    const auto at = std::ranges::find(task.senders, sender, &TaskSender::sender);
    return at == task.senders.end() ? nullptr : &*at;
}

// Null also if it is another's.
TaskSender* TaskRegistry::sender_of(ReceiveTask& task, const Caller& caller, std::uint64_t sender) {
    TaskSender* const found = sender_of(task, sender);
    return found == nullptr || !owns(caller, found->owner) ? nullptr : found;
}

Result<> TaskRegistry::add(const std::shared_ptr<ReceiveTask>& task) {
    {
        const Guard lock(mutex_);
        forget_old_locked();
        if (!live_.try_emplace(task->id, task).second) {
            return Error(Errc::kExists, "task " + task->id +
                                            ": the id is in use on this host; choose another, or "
                                            "wait until that task has ended");
        }
        task->outcome.set_state(v1::Outcome::STATE_RUNNING);
        by_instance_.emplace(task->instance, task);
    }
    changed_.notify_all();
    return {};
}

void TaskRegistry::end(const std::shared_ptr<ReceiveTask>& task, v1::Outcome outcome) {
    {
        const Guard lock(mutex_);
        task->phase =
            outcome.state() == v1::Outcome::STATE_COMMITTED ? TaskPhase::kCommitted : TaskPhase::kFailed;
        task->outcome = std::move(outcome);
        task->forget_at = Clock::now() + options_.lease;
        free_id_locked(*task);
        if (task->senders.empty() && !task->placed) {
            by_instance_.erase(task->instance);
        }
        if (task->here && task->phase == TaskPhase::kCommitted) {
            task->here->stream.commit(task->window, task->instance, {Clock::now(), unix_ms()});
            touch_locked(*task->here);
        } else if (task->here) {
            task->here->stream.fail_run(task->window, task->instance, Clock::now());
            touch_locked(*task->here);
        }
    }
    changed_.notify_all();
    task->over.notify_all();
}

// Another task may have it already.
void TaskRegistry::free_id_locked(const ReceiveTask& task) {
    if (const auto at = live_.find(task.id); at != live_.end() && at->second.get() == &task) {
        live_.erase(at);
    }
}

void TaskRegistry::free_id(const std::shared_ptr<ReceiveTask>& task) {
    const Guard lock(mutex_);
    free_id_locked(*task);
}

bool TaskRegistry::is_live(const std::string& id) {
    const Guard lock(mutex_);
    return live_.contains(id);
}

void TaskRegistry::computed(ReceiveTask& task) {
    const Guard lock(mutex_);
    task.phase = TaskPhase::kComputed;
    task.outcome.set_computed(true);
}

void TaskRegistry::set_trouble(ReceiveTask& task, std::uint64_t sender, std::string trouble) {
    const Guard lock(mutex_);
    if (TaskSender* const entry = sender_of(task, sender); entry != nullptr) {
        entry->trouble = std::move(trouble);
    }
}

void TaskRegistry::set_trouble(ReceiveTask& task, std::string trouble) {
    const Guard lock(mutex_);
    task.trouble = std::move(trouble);
}

void TaskRegistry::set_waits_for(ReceiveTask& task, std::string what) {
    const Guard lock(mutex_);
    if (task.waiting || !what.empty()) {
        task.last_waiting = Clock::now();
    }
    task.waiting = !what.empty();
    if (task.waiting) {
        task.waits_for = std::move(what);
    }
}

void TaskRegistry::settle_own(ReceiveTask& task, const std::string& address, Mark mark, std::string why) {
    {
        const Guard lock(mutex_);
        if (mark.switch_id != 0) {
            task.own->opened(address, mark);
        } else {
            task.own->refused(address, std::move(why));
        }
    }
    changed_.notify_all();
}

void TaskRegistry::forget_old_locked() {
    const auto now = Clock::now();
    std::erase_if(streams_, [now](const auto& entry) {
        return entry.second->closed && now >= entry.second->forget_at;
    });
    std::size_t ended = 0;
    for (auto at = by_instance_.begin(); at != by_instance_.end();) {
        const ReceiveTask& task = *at->second;
        const bool over = task.outcome.state() != v1::Outcome::STATE_RUNNING;
        // Who sends to a relay that has gone asks here.
        const bool told = !task.placed && std::ranges::all_of(task.senders, &TaskSender::knows_outcome);
        ended += over ? 1 : 0;
        at = over && (told || now >= task.forget_at || ended > kMaxEnded) ? by_instance_.erase(at)
                                                                          : std::next(at);
    }
}

void TaskRegistry::wait_until_told(Clock::time_point deadline) {
    Lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] {
        return std::ranges::all_of(by_instance_, [](const auto& entry) {
            const ReceiveTask& task = *entry.second;
            return task.outcome.state() == v1::Outcome::STATE_RUNNING ||
                   std::ranges::all_of(task.senders, &TaskSender::knows_outcome);
        });
    });
}

void TaskRegistry::stop() {
    {
        const Guard lock(mutex_);
        stop_ = true;
        for (const auto& [instance, task] : by_instance_) {
            task->over.notify_all();
        }
        for (const auto& [name, here] : streams_) {
            here->changed.notify_all();
        }
    }
    changed_.notify_all();
}

void TaskRegistry::opened(ReceiveTask& task) {
    {
        const Guard lock(mutex_);
        task.phase = TaskPhase::kWaiting;
    }
    changed_.notify_all();
}

void TaskRegistry::placed(ReceiveTask& task) {
    {
        const Guard lock(mutex_);
        task.placed->set_ready();
    }
    changed_.notify_all();
}

Error TaskRegistry::failed_locked(const ReceiveTask& task) const {
    const std::string& error = task.outcome.error();
    if (task.outcome.code() == static_cast<int>(Errc::kRunAgain)) {
        return {Errc::kUnknown, "task " + task.id + " is about to be opened again: " + error};
    }
    return {Errc::kAborted, "task " + task.id + " has ended" + (error.empty() ? "" : ": " + error)};
}

std::vector<TaskAtSwitch> TaskRegistry::on_switch() {
    const Guard lock(mutex_);
    forget_old_locked();
    std::vector<TaskAtSwitch> tasks;
    for (const auto& [id, task] : live_) {
        if (task->phase > TaskPhase::kOpening && task->phase < TaskPhase::kComputed) {
            for (const TaskSwitch& at : task->switches) {
                tasks.push_back({task, at.client, at.mark, at.nonce});
            }
        }
    }
    return tasks;
}

bool TaskRegistry::cancel(const Caller& caller, const std::string& id) {
    const Guard lock(mutex_);
    if (const auto stream = streams_.find(id);
        stream != streams_.end() && !stream->second->closed && may_use(caller, stream->second->user)) {
        stream->second->cancelled = "cancelled by askctl task cancel on " + options_.host_name;
        stream->second->untold = stream->second->stream.members();
        stream->second->mailbox->post(SessionEvent::Kind::kCancelled);
        return true;
    }
    const auto task = live_.find(id);
    if (task == live_.end() || !may_use(caller, task->second->user)) {
        return false;
    }
    task->second->mailbox->post(SessionEvent::Kind::kCancelled);
    return true;
}

void TaskRegistry::note_switch_part(ReceiveTask& task, Mark of, const v1::FlowStats& stats) {
    const Guard lock(mutex_);
    const auto at = std::ranges::find(task.switches, of, &TaskSwitch::mark);
    if (at != task.switches.end()) {
        at->part.Clear();
        add_switch_part(at->part, stats);
    }
}

}  // namespace ask
