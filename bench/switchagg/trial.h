// SPDX-License-Identifier: Apache-2.0
//
// One task of SwitchAgg section 6.2 through the switch: mappers' packets, made as they are wanted, the switch
// program and its maps, the fetch behind gRPC. What comes out of it is compared with what went in.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "bench/common/rig.h"
#include "bench/switchagg/draw.h"
#include "bench/switchagg/tally.h"

namespace ask::bench {

struct Trial {
    Keys keys;
    std::uint64_t tuples = 0;
    std::uint64_t front_places = 64;  // keys that the aggregators have room for
    std::uint64_t back_keys = 0;      // that the back level is sized for; 0: none
    Turns turns = Turns::kNone;
    bool replace = false;  // a hotter key takes a colder one's place
    bool twice = false;    // each batch again, which changes nothing, and is timed apart
};

struct Outcome {
    std::string geometry;
    std::uint64_t front_places = 0;  // as granted
    std::uint64_t back_bytes = 0;
    std::uint64_t tuples = 0;
    std::uint64_t distinct = 0;  // keys
    std::uint64_t packets = 0;
    std::uint64_t acked = 0;           // by the switch: swallowed whole
    std::uint64_t back = 0;            // tuples in the back level
    std::uint64_t out = 0;             // pairs that came out, in packets or fetched
    std::uint64_t left = 0;            // in packets
    std::uint64_t left_collision = 0;  // of them, because of the front's places
    std::uint64_t left_back_full = 0;  // and because of the back level's
    std::uint64_t fetched = 0;         // entries
    std::uint64_t evict_left = 0;      // what SwitchAgg's rule would have sent on, in as many places
    double first_seconds = 0;          // of the switch, for each key's first tuple where each comes first
    double seconds = 0;                // of the switch, for the other tuples
    double again_seconds = 0;          // and for all packets that came twice
    double fetch_seconds = 0;

    [[nodiscard]] double share(std::uint64_t part) const {
        return static_cast<double>(part) / static_cast<double>(tuples);
    }
    // The part of the pairs that the switch's output is shorter by (section 2.1), until the last packet and
    // with what is fetched after it.
    [[nodiscard]] double reduction_before_fetch() const { return 1 - share(left); }
    [[nodiscard]] double reduction() const { return 1 - share(left + fetched); }
    // No switch can do better: a pair a key must come out.
    [[nodiscard]] double bound() const { return 1 - share(distinct); }
    [[nodiscard]] double evict_reduction() const { return 1 - share(evict_left); }
};

// What is fed. A key holds until the next call.
struct Pair {
    std::string_view key;
    std::int64_t value = 1;
};
class PairSource {
 public:
    virtual ~PairSource() = default;
    virtual Pair next() = 0;
    // Different keys so far.
    [[nodiscard]] virtual std::uint64_t distinct() const = 0;
};

// Called now and then with the part of the pairs that is done.
using Progress = std::function<void(double part)>;

// kInternal: what comes out is not what went in.
Result<Outcome> run_trial(Rig& rig, const Trial& trial, const Progress& progress = {});
// The same with pairs of the caller's, as many as the trial's tuples; `taker` sees what comes out, in its
// order.
Result<Outcome> run_trial(Rig& rig, const Trial& trial, PairSource& source, const PairTaker& taker,
                          const Progress& progress);

}  // namespace ask::bench
