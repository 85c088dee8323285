// SPDX-License-Identifier: Apache-2.0
//
// How far another host's clock is ahead of this one's, by what it says in its answers: it said so after it
// was asked and before that came here. Answers may have been held back for long, so each of them is a bound
// only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace ask {

class ClockOffset {
 public:
    // All in milliseconds: ours when it was asked and when it was heard, and theirs in between.
    void add(std::int64_t asked, std::int64_t heard, std::int64_t theirs) {
        bounds_.push_back({theirs - heard, theirs - asked});
        if (bounds_.size() > kMost) {
            bounds_.pop_front();
        }
        if (least() > most()) {
            // One of the clocks was set.
            bounds_.erase(bounds_.begin(), bounds_.end() - 1);
        }
    }
    [[nodiscard]] std::int64_t ms() const { return bounds_.empty() ? 0 : least() + (most() - least()) / 2; }
    // At most.
    [[nodiscard]] std::int64_t error_ms() const { return bounds_.empty() ? 0 : (most() - least() + 1) / 2; }

 private:
    static constexpr std::size_t kMost = 16;
    struct Bounds {
        std::int64_t least = 0;
        std::int64_t most = 0;
    };
    [[nodiscard]] std::int64_t least() const {
        return std::ranges::max_element(bounds_, {}, &Bounds::least)->least;
    }
    [[nodiscard]] std::int64_t most() const {
        return std::ranges::min_element(bounds_, {}, &Bounds::most)->most;
    }

    std::deque<Bounds> bounds_;
};

}  // namespace ask
