// SPDX-License-Identifier: Apache-2.0
//
// tools/sim: histories of tasks of tuples (docs/simulator.md).
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "tests/sim/frame/simulate.h"
#include "tests/sim/tuples/history.h"
#include "tests/sim/tuples/threads.h"

namespace {

using namespace ask;

// What the daemons log, among the lines of the history.
class LogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
    void sink_it_(const spdlog::details::log_msg& line) override {
        std::printf("%12.3f us    log: %.*s\n", static_cast<double>(sim::sim_now()) / kMicrosecond,
                    static_cast<int>(line.payload.size()), line.payload.data());
    }
    void flush_() override {}
};

struct Tuples {
    using Plan = sim::Plan;
    using Promise = sim::Promise;
    using Verdict = sim::Verdict;

    static constexpr std::uint64_t kMostEvents = 100'000'000;

    static std::string name() { return "window " + std::to_string(ASK_WINDOW); }
    static sim::Manual manual() {
        return {
            .program = "ask-sim",
            .what = "Runs N histories, of the seeds from S on, and checks I1-I6 of the design after each.",
            .has_sizes = true};
    }
    static Plan draw(const sim::Options& options, std::uint64_t seed) {
        if (options.size == "large") {
            return sim::draw_plan(seed, sim::Size::kLarge);
        }
        if (options.size == "windows") {
            return sim::draw_plan(seed, sim::Size::kWindows);
        }
        const bool small = options.size == "small" || (options.size == "mixed" && seed % 100 == 0);
        return sim::draw_plan(seed, small ? sim::Size::kSmall : sim::Size::kTiny);
    }
    static Result<> check(const Plan& plan) { return sim::check_plan(plan); }
    static void begin(bool traced) {
        if (traced) {
            spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<LogSink>()));
        } else {
            spdlog::set_level(spdlog::level::off);
        }
    }
    static Verdict run(const Plan& plan, std::uint64_t seed, bool traced) {
        sim::use_family(plan.six != 0);
        return sim::History(plan, seed, traced).run();
    }
    static std::string again(const sim::Options& options) {
        return "--window " + std::to_string(ASK_WINDOW) + " --size " + std::string(options.size);
    }
    static std::string told(const Verdict& sum) {
        const std::string committed = sum.windows > 0 ? std::to_string(sum.windows) + " windows"
                                                      : std::to_string(sum.commits) + " tasks";
        return committed + " committed, " + std::to_string(sum.errors) + " failed by name, " +
               std::to_string(sum.swaps) + " swaps, " + std::to_string(sum.frames) + " frames";
    }
    static bool tried(const Verdict& sum) { return sum.commits + sum.windows > 0; }
};

}  // namespace

int main(int argc, char** argv) {
    return sim::simulate<Tuples>(argc, argv);
}
