// SPDX-License-Identifier: Apache-2.0
//
// What a simulator's main() is: histories run one after another, or one of them line by line; those that
// break a promise are made smaller and told of. A simulator S has
//
//   S::Plan, S::Promise       numbers (numbers.h), among them `broken`; an enum with kNone
//   S::Verdict                broken, failure ("": all promises held), events; add(another)
//   S::name(), S::manual()    what it is called; its command line
//   S::kMostEvents            a bound for the work of shrinking, half a minute or so
//   S::draw(options, seed)    the plan of a seed
//   S::check(plan)            whether a history can be made of it
//   S::begin(traced)          before the first history
//   S::run(plan, seed, traced)
//   S::again(options)         options of tools/sim that draw the same plans
//   S::told(sum)              what was done in all
//   S::tried(sum)             whether anything was
#pragma once

#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "tests/sim/frame/numbers.h"
#include "tests/sim/frame/options.h"

namespace ask::sim {

template <typename S>
class Simulation {
    using Plan = typename S::Plan;
    using Verdict = typename S::Verdict;

 public:
    explicit Simulation(const Options& options) : options_(options) {}

    // The history of one seed, or its plan alone. Exit codes, as of run().
    int replay() {
        const auto plan = plan_of(options_.seed);
        if (!plan.ok()) {
            return refuse(plan.error());
        }
        std::printf("history of seed %llu:\n%s\n", static_cast<unsigned long long>(options_.seed),
                    describe(*plan).c_str());
        if (options_.plan) {
            return 0;
        }
        S::begin(true);
        const Verdict verdict = S::run(*plan, options_.seed, true);
        std::printf("\n%s\n", verdict.failure.empty() ? "all promises held" : verdict.failure.c_str());
        return verdict.failure.empty() ? 0 : 1;
    }

    int run() {
        Verdict sum;
        std::uint64_t failures = 0;
        std::uint64_t ran = 0;
        const double started = cpu_seconds();
        S::begin(false);
        for (; ran < options_.runs && failures < options_.failures; ++ran) {
            const std::uint64_t seed = options_.seed + ran;
            const auto plan = plan_of(seed);
            if (!plan.ok()) {
                return refuse(plan.error());
            }
            const Verdict verdict = S::run(*plan, seed, false);
            sum.add(verdict);
            if (!verdict.failure.empty()) {
                ++failures;
                report(seed, *plan, verdict);
            }
        }
        const double took = cpu_seconds() - started;
        std::printf(
            "%s: %llu histories from seed %llu, %llu broke a promise; %s; %.1f s of CPU, %.0f histories/s\n",
            S::name().c_str(), static_cast<unsigned long long>(ran),
            static_cast<unsigned long long>(options_.seed), static_cast<unsigned long long>(failures),
            S::told(sum).c_str(), took, static_cast<double>(ran) / took);
        // Something must have been tried.
        return failures == 0 && (ran < 100 || S::tried(sum)) ? 0 : 1;
    }

 private:
    Result<Plan> plan_of(std::uint64_t seed) const {
        Plan plan = S::draw(options_, seed);
        ASK_PASS(override_plan(plan, options_.set));
        ASK_PASS(S::check(plan));
        return plan;
    }

    static int refuse(const Error& error) {
        std::fprintf(stderr, "sim: %s\n", error.text().c_str());
        return 2;
    }

    // Number after number is lowered as long as the history still breaks the same promise: a smaller plan
    // that breaks another is another bug, and the one that was found would be lost.
    Plan shrink(Plan best, std::uint64_t seed, typename S::Promise broken) const {
        std::uint64_t events = 0;
        for (bool better = true; better && events < S::kMostEvents;) {
            better = false;
            for (const Field<Plan>& field : Plan::fields()) {
                if (field.number != &Plan::broken && lower(best, field.number, seed, broken, events)) {
                    better = true;
                }
            }
        }
        return best;
    }

    // Whether one of the numbers that are tried instead breaks it, too.
    static bool lower(Plan& best, std::uint32_t Plan::* number, std::uint64_t seed,
                      typename S::Promise broken, std::uint64_t& events) {
        const std::uint32_t now = best.*number;
        for (const std::uint32_t smaller : {std::uint32_t{0}, std::uint32_t{1}, now / 2, now - 1}) {
            Plan candidate = best;
            candidate.*number = smaller;
            if (smaller >= now || !S::check(candidate).ok()) {
                continue;
            }
            const Verdict verdict = S::run(candidate, seed, false);
            events += verdict.events;
            if (verdict.broken == broken) {
                best = candidate;
                return true;
            }
        }
        return false;
    }

    void report(std::uint64_t seed, const Plan& plan, const Verdict& verdict) const {
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), verdict.failure.c_str());
        Plan small = plan;
        if (options_.shrink) {
            small = shrink(plan, seed, verdict.broken);
            std::printf("  shrunk: %s\n", S::run(small, seed, false).failure.c_str());
        }
        const std::string changes = difference(small, S::draw(options_, seed));
        std::printf("  replay: tools/sim %s --replay %llu%s%s\n", S::again(options_).c_str(),
                    static_cast<unsigned long long>(seed), changes.empty() ? "" : " --set ", changes.c_str());
        std::fflush(stdout);
    }

    static double cpu_seconds() {
        timespec time{};
        ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
    }

    Options options_;
};

template <typename S>
int simulate(int argc, char** argv) {
    if (argc == 2 && (std::string_view(argv[1]) == "-h" || std::string_view(argv[1]) == "--help")) {
        std::printf("%s", usage(S::manual()).c_str());
        return 0;
    }
    // Histories take and give back the same blocks again and again.
    ::mallopt(M_MMAP_THRESHOLD, 64 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
    const auto options = parse_options(S::manual(), argc, argv);
    if (!options) {
        return 2;
    }
    Simulation<S> simulation(*options);
    return options->replay || options->plan ? simulation.replay() : simulation.run();
}

}  // namespace ask::sim
