// SPDX-License-Identifier: Apache-2.0
//
// How the last tasks of this agent ended, for status only.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <ranges>
#include <utility>
#include <vector>

#include "lib/control/member/patience.h"
#include "proto/agent.pb.h"

namespace ask {

// The `limit` that ended last. Thread-safe.
class History {
 public:
    explicit History(std::size_t limit) : limit_(limit) {}

    void add(v1::AgentTask task) {
        const Guard lock(mutex_);
        ended_.emplace_back(Clock::now(), std::move(task));
        while (ended_.size() > limit_) {
            ended_.pop_front();
        }
    }
    // The latest first.
    [[nodiscard]] std::vector<v1::AgentTask> list() const {
        const Guard lock(mutex_);
        std::vector<v1::AgentTask> all;
        all.reserve(ended_.size());
        for (const auto& [ended, task] : std::ranges::reverse_view(ended_)) {
            all.push_back(task);
            all.back().set_ended_seconds_ago(std::chrono::duration<double>(Clock::now() - ended).count());
        }
        return all;
    }

 private:
    const std::size_t limit_;
    mutable Mutex mutex_;
    std::deque<std::pair<Clock::time_point, v1::AgentTask>> ended_;
};

}  // namespace ask
