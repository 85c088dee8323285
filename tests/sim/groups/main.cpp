// SPDX-License-Identifier: Apache-2.0
//
// tools/sim --groups: histories of groups (docs/simulator.md).
#include <cstdint>
#include <string>

#include "tests/sim/frame/simulate.h"
#include "tests/sim/groups/history.h"

namespace {

using namespace ask;

struct Groups {
    using Plan = sim::groups::Plan;
    using Promise = sim::groups::Promise;
    using Verdict = sim::groups::Verdict;

    static constexpr std::uint64_t kMostEvents = 50'000'000;

    static std::string name() { return "groups"; }
    static sim::Manual manual() {
        return {.program = "ask-sim-groups",
                .what =
                    "Runs N histories of groups, of the seeds from S on, and checks after each what must "
                    "hold of value\nstreams."};
    }
    static Plan draw(const sim::Options& options, std::uint64_t seed) {
        (void)options;  // plans are of one size
        return sim::groups::draw_plan(seed);
    }
    static Result<> check(const Plan& plan) { return sim::groups::check_plan(plan); }
    static void begin(bool traced) {
        (void)traced;  // nothing but the history itself is told
    }
    static Verdict run(const Plan& plan, std::uint64_t seed, bool traced) {
        sim::use_family(plan.six != 0);
        return sim::groups::History(plan, seed, traced).run();
    }
    static std::string again(const sim::Options& options) {
        (void)options;
        return "--groups";
    }
    static std::string told(const Verdict& sum) {
        return std::to_string(sum.whole) + " groups through, " + std::to_string(sum.failed) +
               " failed by name, " + std::to_string(sum.folds) + " values folded and " +
               std::to_string(sum.results) + " chunks completed by switches, " + std::to_string(sum.frames) +
               " frames";
    }
    static bool tried(const Verdict& sum) { return sum.whole > 0 && sum.folds > 0 && sum.results > 0; }
};

}  // namespace

int main(int argc, char** argv) {
    return sim::simulate<Groups>(argc, argv);
}
