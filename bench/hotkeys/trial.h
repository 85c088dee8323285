// SPDX-License-Identifier: Apache-2.0
//
// One task of section 5.4 through the switch: a sender's packets, made beforehand; the switch program, a
// receiver's core, and the product's own swapper behind gRPC. The answer is compared with what was sent, key
// by key.
#pragma once

#include <cstdint>
#include <string>

#include "bench/common/rig.h"
#include "bench/hotkeys/stream.h"

namespace ask::bench {

enum class Way : std::uint8_t { kFirstCome, kSwap, kReplace, kBoth };
[[nodiscard]] const char* to_string(Way way);

struct Trial {
    Order order = Order::kRandom;
    Way way = Way::kFirstCome;
    std::uint32_t aggregators = 4096;  // in all: both copies, where there are two
    std::uint64_t tuples = 0;
};

struct Outcome {
    std::string geometry;
    std::uint64_t tuples = 0;
    std::uint64_t packets = 0;
    std::uint64_t aggregated = 0;
    std::uint64_t forwarded = 0;  // left in packets
    std::uint64_t evicted = 0;    // travelled on in packets
    std::uint64_t fetched = 0;
    std::uint64_t swaps = 0;
    double seconds = 0;               // feeding
    double swap_seconds = 0;          // of them, with a swap under way
    double longest_swap_seconds = 0;  // one swap, from due to blank
    double barrier_grace_periods = 0;
    double rate_between = 0;  // tuples/s with no swap under way
    double rate_during = 0;   // tuples/s with one under way

    [[nodiscard]] double share(std::uint64_t part) const {
        return static_cast<double>(part) / static_cast<double>(tuples);
    }
    [[nodiscard]] double aggregated_share() const { return share(aggregated); }
    [[nodiscard]] double upstream_share() const { return share(forwarded + evicted + fetched); }
    [[nodiscard]] double rate() const { return static_cast<double>(tuples) / seconds; }
};

// kInternal: the answer is wrong.
Result<Outcome> run_trial(Rig& rig, const Trial& trial);

}  // namespace ask::bench
