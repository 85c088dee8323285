// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/costs.h"

#include <cstdio>
#include <string>

#include "bench/switchagg/paper.h"
#include "bench/switchagg/trial.h"

namespace ask::bench {
namespace {

struct Stage {
    const char* name;
    const char* paper;  // its stages
    double cycles;
};
constexpr double kArrival = paper::kHeaderAnalyzer + paper::kCrossbar;
constexpr double kForwarded = kArrival + paper::kFrontHash + paper::kFrontForward;
constexpr Stage kSeen{"header, check, dedupe and answer", "header analyzer and crossbar", kArrival};
constexpr Stage kHit{"the same, and hits in the front", "with FPE-hash and FPE-aggregate",
                     kArrival + paper::kFrontHash + paper::kFrontAggregate};
constexpr Stage kMiss{"misses that travel on, no back level", "with FPE-hash and FPE-forward", kForwarded};
constexpr Stage kInsert{"misses that are new in the back level", "with BPE-aggregate",
                        kForwarded + paper::kBackAggregate};
constexpr Stage kBack{"misses that the back level has", "with BPE-aggregate",
                      kForwarded + paper::kBackAggregate};
constexpr Stage kFlush{"fetching the back level", "BPE-flush", paper::kBackFlush};

class Table {
 public:
    // `seconds` for `pairs`, of which the stage's own are `share`.
    void add(const Stage& stage, double seconds, std::uint64_t pairs, double share) {
        const double ns = 1e9 * seconds / static_cast<double>(pairs);
        std::printf("%-38s %10.1f ns a pair %12llu pairs %7.1f%% of them so   %s: %g cycles, %g ns\n",
                    stage.name, ns, static_cast<unsigned long long>(pairs), 100 * share, stage.paper,
                    stage.cycles, 1e9 * paper::seconds(stage.cycles));
        std::fflush(stdout);
        rows_.push_back({{"stage", stage.name},
                         {"ns_pair", ns},
                         {"seconds", seconds},
                         {"pairs", pairs},
                         {"share", share},
                         {"paper_stage", stage.paper},
                         {"paper_cycles", stage.cycles},
                         {"paper_seconds", paper::seconds(stage.cycles)}});
    }
    [[nodiscard]] std::vector<nlohmann::ordered_json> take() { return std::move(rows_); }

 private:
    std::vector<nlohmann::ordered_json> rows_;
};

Keys keys_of(std::uint64_t count) {
    return {.count = count, .shortest = 16, .longest = 16};
}

}  // namespace

Result<std::vector<nlohmann::ordered_json>> measure_costs(Rig& rig, std::uint64_t keys) {
    Table table;
    const std::uint64_t pairs = 2 * keys;
    const auto hits =
        run_trial(rig, {.keys = keys_of(1024), .tuples = pairs, .front_places = 1U << 16U, .twice = true});
    ASK_PASS(hits);
    table.add(kSeen, hits->again_seconds, pairs, 1);
    table.add(kHit, hits->seconds, pairs, 1 - hits->share(hits->left));
    const auto misses = run_trial(rig, {.keys = keys_of(keys), .tuples = pairs, .front_places = 1});
    ASK_PASS(misses);
    table.add(kMiss, misses->seconds, pairs, misses->share(misses->left));
    const auto back = run_trial(rig, {.keys = keys_of(keys),
                                      .tuples = keys + pairs,
                                      .front_places = 1,
                                      .back_keys = keys,
                                      .turns = Turns::kFirst});
    ASK_PASS(back);
    table.add(kInsert, back->first_seconds, keys, back->share(back->back));
    table.add(kBack, back->seconds, pairs, back->share(back->back));
    table.add(kFlush, back->fetch_seconds, back->fetched, 1);
    return table.take();
}

}  // namespace ask::bench
