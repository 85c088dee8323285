// SPDX-License-Identifier: Apache-2.0
//
// tools/sim --groups: runs histories of groups, each made of a seed, and says which broke a promise
// (docs/simulator.md).
#include <malloc.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "tests/sim/groups/history.h"

namespace {

using namespace ask;
using namespace ask::sim::groups;
using ask::sim::groups::History;  // there is another of the C library's

constexpr std::string_view kUsage =
    "Usage: ask-sim-groups [--runs N] [--seed S] [--set NAME=NUMBER,...] [--replay SEED] [--failures N]\n"
    "                      [--no-shrink] [--plan]\n"
    "\n"
    "Runs N histories of groups, of the seeds from S on, and checks after each what must hold of value "
    "streams.\n"
    "A failing one is shrunk and the command printed that replays it.\n"
    "\n"
    "  --runs N      histories (default 1000)\n"
    "  --seed S      the first seed (default 1)\n"
    "  --set A=1,... numbers of every plan that are not drawn\n"
    "  --replay S    runs the history of seed S alone and prints what happens\n"
    "  --failures N  stops after so many that fail (default 5)\n"
    "  --no-shrink   leaves a failing history as it is\n"
    "  --plan        prints the plan of the first seed, and nothing else\n";

struct Options {
    std::uint64_t runs = 1000;
    std::uint64_t seed = 1;
    std::uint64_t failures = 5;
    std::string_view set;
    bool replay = false;
    bool shrink = true;
    bool plan = false;
};

bool parse_number(std::string_view text, std::uint64_t& number) {
    const char* const end = text.data() + text.size();
    return !text.empty() && std::from_chars(text.data(), end, number).ptr == end;
}

// nullopt: said what is wrong.
std::optional<Options> parse_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view flag = argv[i];
        const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
        if (flag == "--no-shrink" || flag == "--plan") {
            options.shrink = options.shrink && flag == "--plan";
            options.plan = options.plan || flag == "--plan";
            continue;
        }
        ++i;
        bool fine = true;
        if (flag == "--runs") {
            fine = parse_number(value, options.runs);
        } else if (flag == "--seed") {
            fine = parse_number(value, options.seed);
        } else if (flag == "--failures") {
            fine = parse_number(value, options.failures);
        } else if (flag == "--replay") {
            options.replay = true;
            fine = parse_number(value, options.seed);
        } else if (flag == "--set") {
            options.set = value;
        } else {
            fine = false;
        }
        if (!fine) {
            std::fprintf(stderr, "sim: %.*s %.*s: see --help\n", static_cast<int>(flag.size()), flag.data(),
                         static_cast<int>(value.size()), value.data());
            return std::nullopt;
        }
    }
    return options;
}

Result<Plan> plan_of(const Options& options, std::uint64_t seed) {
    Plan plan = draw_plan(seed);
    ASK_PASS(override_plan(plan, options.set));
    ASK_PASS(check_plan(plan));
    return plan;
}

Verdict run_history(const Plan& plan, std::uint64_t seed, bool traced) {
    return History(plan, seed, traced).run();
}

// Each number as small as breaks the same promise.
Plan shrink(const Plan& plan, std::uint64_t seed, Promise broken) {
    // A bound for the work, as events: half a minute or so.
    constexpr std::uint64_t kMostEvents = 50'000'000;
    Plan best = plan;
    std::uint64_t events = 0;
    for (bool better = true; better && events < kMostEvents;) {
        better = false;
        for (std::size_t n = 0; number_of(best, n) != nullptr; ++n) {
            const std::uint32_t now = *number_of(best, n);
            for (const std::uint32_t smaller : {std::uint32_t{0}, std::uint32_t{1}, now / 2, now - 1}) {
                Plan candidate = best;
                *number_of(candidate, n) = smaller;
                if (number_of(best, n) == &best.broken || smaller >= now || !check_plan(candidate).ok()) {
                    continue;
                }
                const Verdict verdict = run_history(candidate, seed, false);
                events += verdict.events;
                if (verdict.broken == broken) {
                    best = candidate;
                    better = true;
                    break;
                }
            }
        }
    }
    return best;
}

int replay(const Options& options) {
    const auto plan = plan_of(options, options.seed);
    if (!plan.ok()) {
        std::fprintf(stderr, "sim: %s\n", plan.error().text().c_str());
        return 2;
    }
    std::printf("history of seed %llu:\n%s\n", static_cast<unsigned long long>(options.seed),
                describe(*plan).c_str());
    if (options.plan) {
        return 0;
    }
    const Verdict verdict = run_history(*plan, options.seed, true);
    std::printf("\n%s\n", verdict.failure.empty() ? "all promises held" : verdict.failure.c_str());
    return verdict.failure.empty() ? 0 : 1;
}

void report_failure(const Options& options, std::uint64_t seed, const Plan& plan, const Verdict& verdict) {
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), verdict.failure.c_str());
    Plan small = plan;
    if (options.shrink) {
        small = shrink(plan, seed, verdict.broken);
        std::printf("  shrunk: %s\n", run_history(small, seed, false).failure.c_str());
    }
    const std::string changes = difference(small, draw_plan(seed));
    std::printf("  replay: tools/sim --groups --replay %llu%s%s\n", static_cast<unsigned long long>(seed),
                changes.empty() ? "" : " --set ", changes.c_str());
    std::fflush(stdout);
}

double cpu_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

int run(const Options& options) {
    Verdict sum;
    std::uint64_t failures = 0;
    std::uint64_t ran = 0;
    const double started = cpu_seconds();
    for (; ran < options.runs && failures < options.failures; ++ran) {
        const std::uint64_t seed = options.seed + ran;
        const auto plan = plan_of(options, seed);
        if (!plan.ok()) {
            std::fprintf(stderr, "sim: %s\n", plan.error().text().c_str());
            return 2;
        }
        const Verdict verdict = run_history(*plan, seed, false);
        sum.frames += verdict.frames;
        sum.whole += verdict.whole;
        sum.failed += verdict.failed;
        sum.folds += verdict.folds;
        sum.results += verdict.results;
        if (!verdict.failure.empty()) {
            ++failures;
            report_failure(options, seed, *plan, verdict);
        }
    }
    const double took = cpu_seconds() - started;
    std::printf(
        "groups: %llu histories from seed %llu, %llu broke a promise; %llu groups through, %llu failed by "
        "name, %llu values folded and %llu chunks completed by switches, %llu frames; %.1f s of CPU, "
        "%.0f histories/s\n",
        static_cast<unsigned long long>(ran), static_cast<unsigned long long>(options.seed),
        static_cast<unsigned long long>(failures), static_cast<unsigned long long>(sum.whole),
        static_cast<unsigned long long>(sum.failed), static_cast<unsigned long long>(sum.folds),
        static_cast<unsigned long long>(sum.results), static_cast<unsigned long long>(sum.frames), took,
        static_cast<double>(ran) / took);
    // Something must have been tried.
    return failures == 0 && (ran < 100 || (sum.whole > 0 && sum.folds > 0 && sum.results > 0)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && (std::string_view(argv[1]) == "-h" || std::string_view(argv[1]) == "--help")) {
        std::fwrite(kUsage.data(), 1, kUsage.size(), stdout);
        return 0;
    }
    // Histories take and give back the same blocks again and again.
    ::mallopt(M_MMAP_THRESHOLD, 64 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
    const auto options = parse_options(argc, argv);
    if (!options) {
        return 2;
    }
    return options->replay || options->plan ? replay(*options) : run(*options);
}
