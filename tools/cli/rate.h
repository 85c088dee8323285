// SPDX-License-Identifier: Apache-2.0
//
// How fast a count grows, over the last few seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

namespace ask::cli {

class Rate {
 public:
    using Time = std::chrono::steady_clock::time_point;

    // The count as it stands; one that shrinks begins anew. Returns what it gains a second, 0 while that is
    // not known.
    double add(Time now, std::uint64_t count) {
        if (!points_.empty() && count < points_.back().second) {
            points_.clear();
        }
        points_.emplace_back(now, count);
        while (points_.size() > 2 && now - points_.front().first > kSpan) {
            points_.pop_front();
        }
        const std::chrono::duration<double> time = now - points_.front().first;
        return time.count() > 0 ? static_cast<double>(count - points_.front().second) / time.count() : 0;
    }

 private:
    static constexpr std::chrono::seconds kSpan{3};
    std::deque<std::pair<Time, std::uint64_t>> points_;
};

}  // namespace ask::cli
