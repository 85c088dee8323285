// SPDX-License-Identifier: Apache-2.0
//
// What has come of a task's DATA: counted by the workers, watched by the task's swapper.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "lib/base/runtime.h"
#include "lib/engine/receiver.h"
#include "lib/tuples/swap_policy.h"

namespace ask {

class TaskArrivals {
 public:
    // By a worker, for an accepted DATA packet.
    void note(const RxVerdict& verdict) {
        span_.fetch_add(verdict.advance, std::memory_order_relaxed);
        const std::uint64_t packets = packets_.fetch_add(1) + 1;
        const std::uint64_t tuples = tuples_.fetch_add(verdict.items) + verdict.items;
        if (packets >= alarm_packets_.load() || tuples >= alarm_tuples_.load()) {
            // Once until it is set again.
            alarm_packets_ = kNone;
            alarm_tuples_ = kNone;
            wake();
        }
    }

    // By the swapper: it is woken once one of the totals is reached, which may be at once.
    void set_alarm(std::uint64_t packets, std::uint64_t tuples) {
        alarm_packets_ = packets;
        alarm_tuples_ = tuples;
        if (packets_.load() >= packets || tuples_.load() >= tuples) {
            wake();
        }
    }
    void wake() {
        {
            const Guard lock(mutex_);
            woken_ = true;
        }
        wakes_.notify_all();
    }
    // Until it is woken, or has been since it waited last, or until then.
    void wait(Clock::time_point until) {
        Lock lock(mutex_);
        wakes_.wait_until(lock, until, [this] { return woken_; });
        woken_ = false;
    }
    [[nodiscard]] SwapArrivals totals() const {
        return {.packets = packets_.load(),
                .tuples = tuples_.load(),
                .span = span_.load(std::memory_order_relaxed)};
    }

 private:
    static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

    std::atomic<std::uint64_t> packets_{0};
    std::atomic<std::uint64_t> tuples_{0};
    std::atomic<std::uint64_t> span_{0};
    std::atomic<std::uint64_t> alarm_packets_{kNone};
    std::atomic<std::uint64_t> alarm_tuples_{kNone};
    Mutex mutex_;
    CondVar wakes_;
    bool woken_ = false;  // under mutex_
};

}  // namespace ask
