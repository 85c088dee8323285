// SPDX-License-Identifier: Apache-2.0
//
// The time that leases run by: that in which the daemon could have heard a renewal. A daemon that was
// stopped, or that its machine gave no time, finds leases as they were when it goes on.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace ask {

class LeaseClock {
 public:
    using Time = std::chrono::steady_clock::time_point;
    // More between two ticks means that the daemon was away. Its ticks come every second at the latest.
    static constexpr std::chrono::seconds kMost{2};

    // `real` time never goes back.
    void tick(Time real) {
        running_ = now(real);
        last_ = real;
    }
    [[nodiscard]] Time now(Time real) const {
        return last_ ? running_ + std::min<Time::duration>(real - *last_, kMost) : running_;
    }

 private:
    Time running_;
    std::optional<Time> last_;
};

}  // namespace ask
