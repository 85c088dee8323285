// SPDX-License-Identifier: Apache-2.0
//
// SwitchAgg's Fig. 2(b) and Theorem 2.2: several switches in a row, each fed with what the one before it
// let out. The theorem (more of them do not help) holds for SwitchAgg's own rule with one hash for all, and
// for nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/common/rig.h"
#include "bench/switchagg/trial.h"

namespace ask::bench {

enum class HopRule : std::uint8_t {
    kEvict,      // SwitchAgg's, a model: who finds another key in its place drives that out
    kFirstCome,  // the switch program's
    kHeat,       // and its other one, which replaces cold keys
};
[[nodiscard]] const char* to_string(HopRule rule);

struct HopPlan {
    HopRule rule = HopRule::kFirstCome;
    bool own_hash = false;  // a hash of its own at each hop
    double exponent = 0;    // of Zipf's law; 0: uniform
    std::uint64_t keys = 0;
    std::uint64_t places = 0;
    std::uint64_t pairs = 0;
};

struct HopOutcome {
    unsigned hop = 0;          // from 1
    std::uint64_t places = 0;  // as granted
    std::uint64_t in = 0;      // pairs
    std::uint64_t left = 0;    // that came out before the end
    std::uint64_t out = 0;     // and with what was kept until then
};

inline constexpr unsigned kHops = 3;

[[nodiscard]] std::vector<HopPlan> plan_hops(std::uint64_t keys);
// kInternal: what comes out of a hop is not what went in.
Result<std::vector<HopOutcome>> run_hops(Rig& rig, const HopPlan& plan);

}  // namespace ask::bench
