// SPDX-License-Identifier: Apache-2.0
//
// How fast a channel's packets may leave.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/engine/types.h"

namespace ask {

// A token bucket, kept as the time at which it will have paid for what has left: a packet may leave once that
// time has come, whatever its size, and puts it off by what it takes at the rate. So the rate holds for any
// packet size, and nothing is rounded away.
class Pace {
 public:
    // What may be caught up on after a delay, and no more: other users of the link see no longer burst than
    // this much of the rate, and a worker that has slept a little too long loses nothing.
    static constexpr Nanos kCatchUp = 2 * kMillisecond;
    static constexpr std::uint64_t kMostRate = 1'000'000'000'000'000;

    Pace() = default;  // as fast as it goes
    // `rate`: bits a second of frames, which have `overhead` bytes around each payload; 0: as fast as it
    // goes.
    Pace(std::uint64_t rate, std::size_t overhead, Nanos now)
        : rate_(std::min(rate, kMostRate)), overhead_(overhead), paid_at_(rate == 0 ? 0 : now) {}

    // When the next packet may leave.
    [[nodiscard]] Nanos free_at() const { return paid_at_; }
    void sent(Nanos now, std::size_t payload) {
        if (rate_ == 0) {
            return;
        }
        const std::uint64_t bits = 8 * (std::uint64_t{payload} + overhead_);
        const std::uint64_t work = bits * static_cast<std::uint64_t>(kSecond) + left_;
        left_ = work % rate_;
        paid_at_ = std::max(paid_at_, now - kCatchUp) + static_cast<Nanos>(work / rate_);
    }

 private:
    std::uint64_t rate_ = 0;
    std::uint64_t overhead_ = 0;
    std::uint64_t left_ = 0;  // of a nanosecond, in bits at the rate
    Nanos paid_at_ = 0;
};

}  // namespace ask
