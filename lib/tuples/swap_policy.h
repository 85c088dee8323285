// SPDX-License-Identifier: Apache-2.0
//
// When to swap a task's copies (ASK section 3.4, design section 8): the paper's "arrivals pass a threshold",
// or thresholds that adapt. Pure: told what has arrived and what a swap brought, it says what to wait for.
//
// Adaptive: a swap costs the entries that have to be fetched; not swapping costs the tuples that the switch
// misses. So wait until as many tuples have been missed as the last swap fetched, times a factor (rent or
// buy: at factor 1 never worse than twice the better of the two). The factor learns whether swaps help at
// all. Had they not happened, tuples would have gone on being missed at the rate of the end of the epoch
// before; where what they save against that is less than what they cost (keys in random order), the factor
// doubles, and where it is more (keys that cool down) it halves.
#pragma once

#include <cstdint>
#include <limits>

#include "lib/tuples/types.h"

namespace ask {

// Any threshold that is not 0 and is reached asks for a swap; all 0: adaptive.
struct SwapSettings {
    std::uint64_t packets = 0;  // DATA packets that arrived since the last swap
    std::uint64_t tuples = 0;   // tuples in them
    Nanos interval = 0;         // since the last swap
    [[nodiscard]] bool adaptive() const { return packets == 0 && tuples == 0 && interval == 0; }
};

// What has come of a task's DATA since it began, all flows together.
struct SwapArrivals {
    std::uint64_t packets = 0;
    std::uint64_t tuples = 0;  // in those packets: what the switch missed
    std::uint64_t span = 0;    // seqs up to the highest that came of each flow: packets sent, or nearly
};

class SwapPolicy {
 public:
    static constexpr double kMaxFactor = 64;
    static constexpr std::uint64_t kMinTuples = 64;

    // `places`: aggregators of a copy, of all its slots, the most that the first swap can cost.
    SwapPolicy(const SwapSettings& settings, std::uint64_t places, Nanos now);

    // What to wait for before asking due() again: the first of these totals or this time.
    struct Alarm {
        std::uint64_t packets = std::numeric_limits<std::uint64_t>::max();
        std::uint64_t tuples = std::numeric_limits<std::uint64_t>::max();
        Nanos at = kNever;
    };
    [[nodiscard]] Alarm alarm() const;
    // Whether a swap is due. If so, the epoch ends with these arrivals.
    [[nodiscard]] bool due(Nanos now, const SwapArrivals& arrivals);
    // The swap that was due is done: it fetched `entries`, and the switch has aggregated `aggregated` tuples
    // since the task began.
    void done(std::uint64_t entries, std::uint64_t aggregated);

    [[nodiscard]] double factor() const { return factor_; }

 private:
    // Share of the tuples that were missed from one moment to another.
    [[nodiscard]] double miss_rate(const SwapArrivals& from, const SwapArrivals& to) const;
    [[nodiscard]] double tuples_sent(const SwapArrivals& from, const SwapArrivals& to) const;
    void learn(std::uint64_t entries);

    const SwapSettings settings_;
    std::uint64_t threshold_;  // adaptive: tuples missed in an epoch
    double factor_ = 1;
    double tuples_a_packet_ = 0;  // sent, over the whole task
    double saved_ = 0;            // by swaps, weighed towards the present
    double cost_ = 0;             // of those swaps
    Nanos started_;               // of the epoch
    SwapArrivals start_;
    SwapArrivals half_;  // when half the threshold had been missed
    bool half_known_ = false;
    SwapArrivals end_;
    double rate_before_ = -1;  // miss rate in the second half of the epoch before; negative: none
    std::uint64_t cost_before_ = 0;
};

}  // namespace ask
