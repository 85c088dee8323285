// SPDX-License-Identifier: Apache-2.0
//
// ask-recv: opens a task and prints its result.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "lib/base/standard_fds.h"
#include "lib/client/receive_session.h"
#include "lib/text/stats_json.h"
#include "tools/cli/cli.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/rate.h"
#include "tools/cli/stats_file.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/swap_flag.h"

namespace ask::cli {
namespace {

constexpr const char* kName = "ask-recv";
// UDP payload that fits an MTU of 1500: how many rows a geometry gets when it names none.
constexpr unsigned kUsualPayload = 1472;

struct Flags {
    CommonFlags common;
    std::uint32_t senders = 0;
    std::string op = "sum";
    std::string geometry;
    std::uint32_t aggregators = 0;
    std::string swap = "off";
    bool no_switch = false;
    bool require_region = false;
    std::string policy = "auto";
    bool allow_incomplete = false;
};

const std::map<std::string, client::TaskPolicy> kPolicies{{"auto", client::TaskPolicy::kAuto},
                                                          {"first-come", client::TaskPolicy::kFirstCome},
                                                          {"replace", client::TaskPolicy::kReplace}};

void add_flags(CLI::App& app, Flags& flags) {
    add_common_flags(app, flags.common);
    app.add_option("--senders", flags.senders, "how many sends make the task whole")
        ->required()
        ->check(CLI::Range(1U, 65535U))
        ->type_name("N");
    app.add_option("--op", flags.op, "how values of equal keys are combined: sum, count, min or max")
        ->check(CLI::IsMember({"sum", "count", "min", "max"}))
        ->type_name("OP")
        ->capture_default_str();
    app.add_option(
           "--geometry", flags.geometry,
           "SHORT+GROUPSxM[*ROWS]: slots of a packet's row, e.g. 16+8x2*4; auto: chosen by samples of "
           "the senders' keys (default: the agent's)")
        ->type_name("G");
    app.add_option("--aggregators", flags.aggregators,
                   "aggregators per array on the switch (default: the switch's)")
        ->check(CLI::Range(1U, ASK_MAX_AGGREGATORS))
        ->type_name("N");
    app.add_option(
           "--swap", flags.swap,
           "when the switch's shadow copies are swapped, so that early cold keys make room: off, auto, or "
           "any of packets=N, tuples=N and every=MS, separated by commas")
        ->type_name("WHEN")
        ->capture_default_str();
    app.add_flag("--no-switch", flags.no_switch, "aggregate on this host only");
    app.add_flag("--require-region", flags.require_region, "fail if the switch has no memory for the task");
    app.add_option("--policy", flags.policy,
                   "who keeps an aggregator that two keys want: first-come, replace (a hotter key takes a "
                   "colder one's place) or auto")
        ->check(CLI::IsMember(kPolicies))
        ->type_name("P")
        ->capture_default_str();
    app.add_flag(
        "--allow-incomplete", flags.allow_incomplete,
        "go on without senders that die: the result then lacks an unknown part of theirs, and the exit "
        "code is 20");
    app.footer(
        "Prints key<TAB>value lines, sorted by the keys' bytes, once every sender has finished. Exit codes "
        "and "
        "more: docs/commands.md.");
}

Result<client::ReceiveOptions> options_from(const Flags& flags) {
    client::ReceiveOptions options;
    options.agent = flags.common.agent;
    options.task = flags.common.task;
    options.senders = flags.senders;
    options.op = client::parse_task_op(flags.op).value_or(client::TaskOp::kSum);
    options.deadline = flags.common.deadline();
    options.aggregators = flags.aggregators;
    auto swap = parse_swap(flags.swap);
    ASK_TRY(swap, "--swap");
    options.swap = *swap;
    options.no_switch = flags.no_switch;
    options.require_region = flags.require_region;
    options.policy = kPolicies.at(flags.policy);
    options.allow_incomplete = flags.allow_incomplete;
    options.auto_geometry = flags.geometry == "auto";
    if (!flags.geometry.empty() && !options.auto_geometry) {
        auto geometry = parse_geometry(flags.geometry, kUsualPayload);
        if (!geometry) {
            return Error(Errc::kUsage, "--geometry: " + geometry.error().text());
        }
        options.geometry = *geometry;
    }
    return options;
}

struct Received {
    client::ReceiveInfo info;
    client::ReceiveResult result;
};

Result<Received> receive(const Flags& flags, int stop_fd, ProgressLine& progress) {
    auto options = options_from(flags);
    if (!options) {
        return std::move(options).error();
    }
    options->cancel_fd = stop_fd;
    options->on_progress = [&progress, &flags, rate = Rate()](const client::TaskProgress& now) mutable {
        const double gained = rate.add(std::chrono::steady_clock::now(), now.stats.tuples_in);
        progress.show(describe_receive(now, flags.senders, gained));
    };
    options->on_run_again = [&progress](const Error& why) { progress.note(why.text()); };
    auto session = client::ReceiveSession::open(*std::move(options));
    if (!session) {
        return std::move(session).error();
    }
    const client::ReceiveInfo& info = session->info();
    if (!info.geometry_reason.empty()) {
        progress.note("geometry " + to_string(info.geometry) + ", " + info.geometry_reason);
    }
    if (!info.note.empty()) {
        progress.note(info.note);
    }
    progress.show("open, waiting for " + std::to_string(flags.senders) + " sender(s)");
    auto result = session->wait();
    if (!result) {
        return std::move(result).error();
    }
    return Received{session->info(), *std::move(result)};
}

// Said even into a pipe: whoever asked for it must be able to tell it from a whole result.
void tell_missing(const client::ReceiveReport& report) {
    for (const client::MissingSenders& missing : report.missing) {
        std::fprintf(stderr, "%s: incomplete: the result holds %s\n", kName, describe(missing).c_str());
    }
}

Result<> print(const client::ResultMap& table) {
    LineWriter out(STDOUT_FILENO);
    auto printed =
        table.each_sorted([&out](std::string_view key, std::int64_t value) { return out.line(key, value); });
    return printed ? out.flush() : std::move(printed);
}

int finish(const Flags& flags, const Received& received, StatsFile& stats_file) {
    const client::ReceiveResult& result = received.result;
    tell_missing(result.report);
    int code = result.report.missing.empty() ? 0 : kExitIncomplete;
    if (!flags.common.stats_file.empty()) {
        const std::string json = receive_stats_json(received.info, result.report);
        if (auto written = stats_file.write(json); !written) {
            // The senders have been told that the result is there: it is printed all the same.
            code = fail(kName, written.error());
        }
    }
    if (auto printed = print(result.table); !printed) {
        // Whoever reads has had enough (`| head`), as with any filter.
        return printed.error().sys_errno() == EPIPE
                   ? kExitBrokenPipe
                   : fail(kName, std::move(printed).error().with_context("standard output"));
    }
    return code;
}

int run(const Flags& flags) {
    if (!is_writable(STDOUT_FILENO)) {
        return fail(kName, Error(Errc::kUsage,
                                 "standard output is closed, so the result has nowhere to go: "
                                 "redirect it to a file"));
    }
    auto signals = StopSignals::block();
    if (!signals) {
        return fail(kName, signals.error());
    }
    auto stats_file = StatsFile::create(flags.common.stats_file);
    if (!stats_file) {
        return fail(kName, stats_file.error());
    }
    ProgressLine progress(kName);
    auto result = receive(flags, signals->fd(), progress);
    progress.clear();
    if (!result && signals->raised()) {
        std::fprintf(stderr, "%s: interrupted: task %s is torn down on all hosts\n", kName,
                     flags.common.task.c_str());
        return kExitInterrupted;
    }
    if (!result) {
        return fail(kName, result.error());
    }
    // The task is over: there is nothing left to tear down, and a stuck reader must not hold us.
    signals->unblock();
    return finish(flags, *result, *stats_file);
}

}  // namespace
}  // namespace ask::cli

int main(int argc, char** argv) {
    ask::open_standard_fds();
    CLI::App app("Opens a task for senders on other hosts and prints its result.", ask::cli::kName);
    ask::cli::Flags flags;
    ask::cli::add_flags(app, flags);
    if (const int code = ask::cli::parse(app, argc, argv); code >= 0) {
        return code;
    }
    return ask::cli::run(flags);
}
