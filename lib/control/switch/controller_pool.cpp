// SPDX-License-Identifier: Apache-2.0
//
// Tables of back levels that outlive their tasks (back_pool.h): within what back levels may take, blanked
// without the lock before another task has them. They have no pins: they go with this process.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/control/switch/controller.h"

namespace ask {

// Before new memory is had for the task: what is kept makes room for it.
void Controller::take_pooled(Task& task) {
    for (unsigned group = 0; group < task.back.size(); ++group) {
        if (task.back[group] != 0) {
            task.back_pooled[group] = back_pool_.take(group, task.back[group]);
        }
    }
    trim_pool();
}

// No program has the task any more. A fetch may be reading still, of this task's receiver: it must not see
// another's keys.
void Controller::keep_back(Task& task) {
    for (unsigned group = 0; group < task.back.size(); ++group) {
        OwnMapPtr map = std::exchange(task.back_maps[group], nullptr);
        if (map && map.use_count() == 1) {
            back_pool_.put(group, task.back[group], std::move(map));
        }
    }
    blank_work_.notify_all();
}

void Controller::trim_pool() {
    back_pool_.keep_within(limits_.back_bytes - std::min(limits_.back_bytes, back_used_));
}

// All that is kept; false: there is nothing. One that is being blanked has its memory until whoever does that
// sees that nobody wants it any more.
bool Controller::drop_pooled() {
    Lock lock(mutex_);
    const PooledBack* const held = blanking_.get();
    const bool any = back_pool_.count() > 0 || held != nullptr;
    back_pool_.keep_within(0);
    wait_settled(lock, [&] { return held == nullptr || blanking_.get() != held; });
    return any;
}

// Blanks what is kBlanking. Whoever waits for it sees how it went.
void Controller::blank_pooled(const PooledBackPtr& table) {
    const auto go_on = [&] {
        const Guard lock(mutex_);
        return !stopping_ && !table->dropped;
    };
    const auto blank = store_.blank_back(*table->map, table->group, table->buckets, go_on);
    if (!blank.ok()) {
        spdlog::warn("a back level is not kept: {}", blank.error().text());
    }
    const Guard lock(mutex_);
    table->state = blank.ok() && *blank ? PooledBack::State::kBlank : PooledBack::State::kFailed;
    settled_.notify_all();
}

// Without the lock: what take_pooled() took, once it is blank. Null: there is none, and one is to be made.
OwnMapPtr Controller::claim_pooled(const PooledBackPtr& table) {
    Lock lock(mutex_);
    if (!table) {
        ++back_made_;
        return nullptr;
    }
    if (table->state == PooledBack::State::kDirty) {
        table->state = PooledBack::State::kBlanking;
        lock.unlock();
        blank_pooled(table);
        lock.lock();
    }
    settled_.wait(lock, [&] { return table->state != PooledBack::State::kBlanking; });
    const bool blank = table->state == PooledBack::State::kBlank;
    ++(blank ? back_reused_ : back_made_);
    return blank ? std::exchange(table->map, nullptr) : nullptr;
}

void Controller::blank_loop() {
    Lock lock(mutex_);
    while (true) {
        blank_work_.wait(lock, [this] { return stopping_ || back_pool_.has_dirty(); });
        if (stopping_) {
            return;
        }
        blanking_ = back_pool_.next_to_blank();
        PooledBackPtr table = blanking_;
        lock.unlock();
        blank_pooled(table);
        lock.lock();
        table = nullptr;
        blanking_ = nullptr;
        trim_pool();
        settled_.notify_all();
    }
}

}  // namespace ask
