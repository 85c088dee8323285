// SPDX-License-Identifier: Apache-2.0
//
// tools/sim: runs histories, each made of a seed, and says which broke a promise (docs/simulator.md).
#include <malloc.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "tests/sim/history.h"
#include "tests/sim/shrink.h"
#include "tests/sim/threads.h"

namespace {

using namespace ask;
using namespace ask::sim;

constexpr std::string_view kUsage =
    "Usage: ask-sim [--runs N] [--seed S] [--size tiny|small|large|mixed] [--set NAME=NUMBER,...]\n"
    "               [--replay SEED] [--failures N] [--no-shrink] [--plan]\n"
    "\n"
    "Runs N histories, of the seeds from S on, and checks I1-I6 of the design after each. A failing one is\n"
    "shrunk and the command printed that replays it.\n"
    "\n"
    "  --runs N      histories (default 1000)\n"
    "  --seed S      the first seed (default 1)\n"
    "  --size Z      how large they are (default mixed: mostly tiny)\n"
    "  --set A=1,... numbers of every plan that are not drawn\n"
    "  --replay S    runs the history of seed S alone and prints what happens\n"
    "  --failures N  stops after so many that fail (default 5)\n"
    "  --plan        prints the plan of the first seed, and nothing else\n";

struct Options {
    std::uint64_t runs = 1000;
    std::uint64_t seed = 1;
    std::uint64_t failures = 5;
    std::string_view size = "mixed";
    std::string_view set;
    bool replay = false;
    bool shrink = true;
    bool plan = false;
};

Size size_of(const Options& options, std::uint64_t seed) {
    if (options.size == "tiny") {
        return Size::kTiny;
    }
    if (options.size == "small") {
        return Size::kSmall;
    }
    if (options.size == "large") {
        return Size::kLarge;
    }
    return seed % 100 == 0 ? Size::kSmall : Size::kTiny;
}

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
        if (flag == "--no-shrink") {
            options.shrink = false;
            continue;
        }
        if (flag == "--plan") {
            options.plan = true;
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
        } else if (flag == "--size") {
            options.size = value;
            fine = value == "tiny" || value == "small" || value == "large" || value == "mixed";
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
    Plan plan = draw_plan(seed, size_of(options, seed));
    ASK_PASS(override_plan(plan, options.set));
    ASK_PASS(check_plan(plan));
    return plan;
}

// What the daemons log, among the lines of the history.
class LogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
    void sink_it_(const spdlog::details::log_msg& line) override {
        std::printf("%12.3f us    log: %.*s\n", static_cast<double>(sim_now()) / kMicrosecond,
                    static_cast<int>(line.payload.size()), line.payload.data());
    }
    void flush_() override {}
};

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
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<LogSink>()));
    const Verdict verdict = sim::History(*plan, options.seed, true).run();
    std::printf("\n%s\n", verdict.failure.empty() ? "all promises held" : verdict.failure.c_str());
    return verdict.failure.empty() ? 0 : 1;
}

void report_failure(const Options& options, std::uint64_t seed, const Plan& plan, const Verdict& verdict) {
    const Plan drawn = draw_plan(seed, size_of(options, seed));
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), verdict.failure.c_str());
    Plan small = plan;
    if (options.shrink) {
        small = shrink(plan, seed, verdict.broken);
        std::printf("  shrunk: %s\n", sim::History(small, seed, false).run().failure.c_str());
    }
    const std::string changes = difference(small, drawn);
    std::printf("  replay: tools/sim --window %u --size %.*s --replay %llu%s%s\n", ASK_WINDOW,
                static_cast<int>(options.size.size()), options.size.data(),
                static_cast<unsigned long long>(seed), changes.empty() ? "" : " --set ", changes.c_str());
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
        const Verdict verdict = sim::History(*plan, seed, false).run();
        sum.events += verdict.events;
        sum.frames += verdict.frames;
        sum.commits += verdict.commits;
        sum.errors += verdict.errors;
        sum.swaps += verdict.swaps;
        if (!verdict.failure.empty()) {
            ++failures;
            report_failure(options, seed, *plan, verdict);
        }
    }
    const double took = cpu_seconds() - started;
    std::printf(
        "window %u: %llu histories from seed %llu, %llu broke a promise; %llu tasks committed, %llu failed "
        "by "
        "name, %llu swaps, %llu frames; %.1f s of CPU, %.0f histories/s\n",
        ASK_WINDOW, static_cast<unsigned long long>(ran), static_cast<unsigned long long>(options.seed),
        static_cast<unsigned long long>(failures), static_cast<unsigned long long>(sum.commits),
        static_cast<unsigned long long>(sum.errors), static_cast<unsigned long long>(sum.swaps),
        static_cast<unsigned long long>(sum.frames), took, static_cast<double>(ran) / took);
    // Something must have been tried.
    return failures == 0 && (ran < 100 || sum.commits > 0) ? 0 : 1;
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
    if (options->replay || options->plan) {
        return replay(*options);
    }
    spdlog::set_level(spdlog::level::off);
    return run(*options);
}
