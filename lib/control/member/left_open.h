// SPDX-License-Identifier: Apache-2.0
//
// Tasks that may be open at a switch although nobody here knows them any more: they have just ended, or it
// did not answer when they were to be opened or closed. Who opens one of the same id closes them before, else
// SwitchKeeper does, so that their ids are not in use until a lease runs out. Thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/switch_port.h"

namespace ask {

class LeftOpen {
 public:
    using Time = Clock::time_point;
    // After these, what is left is the leases' to take back.
    static constexpr std::size_t kMost = 1024;
    static constexpr std::chrono::minutes kFor{10};

    struct Task {
        std::uint64_t instance = 0;
        std::string address;  // of the switch
        std::string id;
        bool operator==(const Task&) const = default;
    };

    // false: another one, the oldest, had to make room.
    bool add(const Task& task, Time now) {
        const Guard lock(mutex_);
        std::erase_if(entries_, [&](const Entry& entry) { return entry.task == task; });
        const bool room = entries_.size() < kMost;
        if (!room) {
            entries_.pop_front();
        }
        entries_.push_back({task, now + kFor});
        return room;
    }
    void remove(const Task& task) {
        const Guard lock(mutex_);
        std::erase_if(entries_, [&](const Entry& entry) { return entry.task == task; });
    }
    [[nodiscard]] std::vector<Task> list(Time now) {
        const Guard lock(mutex_);
        std::erase_if(entries_, [&](const Entry& entry) { return entry.forget_at <= now; });
        std::vector<Task> all;
        all.reserve(entries_.size());
        std::ranges::transform(entries_, std::back_inserter(all), &Entry::task);
        return all;
    }

 private:
    struct Entry {
        Task task;
        Time forget_at;
    };
    Mutex mutex_;
    std::deque<Entry> entries_;  // under mutex_; oldest first
};

// What tasks of this id that have ended here may have left open at the switch: it would refuse the id to the
// next one. `wait` is for each.
Result<> close_left_open(LeftOpen& left, SwitchPort& at, const std::string& id, milliseconds wait,
                         CallCancel* cancel);

}  // namespace ask
