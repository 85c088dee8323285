// SPDX-License-Identifier: Apache-2.0
//
// ask-send: streams lines into a task.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/standard_fds.h"
#include "lib/client/send_session.h"
#include "tools/cli/causes.h"
#include "tools/cli/cli.h"
#include "tools/cli/follow.h"
#include "tools/cli/input.h"
#include "tools/cli/line_flags.h"
#include "tools/cli/output_file.h"
#include "tools/cli/progress.h"
#include "tools/cli/rate.h"
#include "tools/cli/rate_flag.h"
#include "tools/cli/sampling.h"
#include "tools/cli/stats_json.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/token.h"

namespace ask::cli {
namespace {

constexpr const char* kName = "ask-send";
// How long a pipe may take to show something of its keys.
constexpr std::chrono::milliseconds kSamplePatience{100};
// More than a receiver asks for.
constexpr std::uint32_t kMostRuns = 4;

struct Flags {
    CommonFlags common;
    std::string to;
    LineFlags lines;
    std::optional<std::uint32_t> merge_window;
    std::string max_rate;
    std::size_t spool_mib = 64;
    bool follow = false;
    std::uint32_t linger_ms = 0;
    std::string state;
    std::vector<std::string> files;
};

void add_flags(CLI::App& app, Flags& flags) {
    add_common_flags(app, flags.common);
    app.add_option(
           "--to", flags.to,
           "host that receives the task: a name or an address, with :PORT if its agent listens elsewhere "
           "than at 4791 ([ADDRESS]:PORT of IPv6)")
        ->required()
        ->type_name("HOST[:PORT]");
    add_line_flags(app, flags.lines);
    app.add_option("--merge-window", flags.merge_window,
                   "hold back this many tuples to merge equal keys; 0: none (default: the agent's)")
        ->check(CLI::Range(0U, 1U << 20))
        ->type_name("N");
    app.add_option(
           "--max-rate", flags.max_rate,
           "take no more of the link than so many bits a second, all headers included: 800k, 100M, 2.5G "
           "(default: as much as the network lets through)")
        ->check([](const std::string& text) {
            const auto rate = parse_rate(text);
            return rate ? std::string() : rate.error().text();
        })
        ->type_name("RATE");
    app.add_option(
           "--spool", flags.spool_mib,
           "MiB of what comes through pipes to keep, so that it can be sent again if the switch loses what "
           "it has; 0: none. With --follow: of what is not committed; then nothing more is read")
        ->check(CLI::Range(0U, 65536U))
        ->type_name("MIB")
        ->capture_default_str();
    auto* const follow = app.add_flag("--follow", flags.follow,
                                      "into a stream, from one pipe or file that "
                                      "grows, through its rotation: until the pipe "
                                      "ends, or a signal comes, then leave it");
    app.add_option(
           "--linger", flags.linger_ms,
           "with --follow: hold merged tuples back for no longer than this (default: while the window "
           "lasts)")
        ->check(CLI::Range(1U, 86'400'000U))
        ->needs(follow)
        ->type_name("MS");
    app.add_option(
           "--state", flags.state,
           "with --follow FILE: keep in this file what is not committed of which lines, so that another "
           "ask-send goes on should this one be killed")
        ->needs(follow)
        ->type_name("STATE");
    app.add_option("FILE", flags.files,
                   "lines of key<TAB>value, or as the flags say, gzip and zstd decompressed; - is standard "
                   "input, which is "
                   "also the default");
    app.footer(
        "Keys are written with \\\\ \\t \\n \\r \\0 and \\xHH for bytes that do not show. Exit codes and "
        "more: "
        "docs/commands.md.");
}

// Bits a second; 0: none was named.
std::uint64_t max_rate_of(const Flags& flags) {
    const auto rate = parse_rate(flags.max_rate);
    return rate ? *rate : 0;
}

Result<client::TaskStats> send_once(const Flags& flags, const std::string& token,
                                    const std::optional<KeySample>& sample, SendInputs& inputs, int stop_fd,
                                    ProgressLine& progress) {
    progress.show("looking for task " + flags.common.task + " at " + flags.to);
    auto session = client::SendSession::open({
        .agent = flags.common.agent,
        .task = flags.common.task,
        .to = flags.to,
        .merge_window = flags.merge_window,
        .deadline = flags.common.deadline(),
        .sample = sample,
        .as_count = flags.lines.count,
        .can_repeat = inputs.can_repeat(),
        .max_rate = max_rate_of(flags),
        .token = token,
        .cancel_fd = stop_fd,
        .on_progress =
            [&progress, &inputs, rate = Rate()](const client::TaskProgress& now) mutable {
                const double gained = rate.add(std::chrono::steady_clock::now(), now.stats.tuples_in);
                progress.show(describe_send(now, gained, inputs.share_read()));
            },
    });
    ASK_PASS(session);
    if (auto sent = inputs.send(*session, stop_fd); !sent) {
        session->abandon(sent.error().text());
        return std::move(sent).error();
    }
    return session->finish();
}

struct Sent {
    client::TaskStats stats;
    std::uint32_t runs = 1;
};

// Also in a pipe: whoever allows lines to be skipped must see that some were.
void show_skipped(const std::string& error, ProgressLine& progress) {
    progress.clear();
    std::fprintf(stderr, "%s: skipped: %s\n", kName, error.c_str());
}

void tell_skipped(const BadLines& bad) {
    if (bad.skipped() > 0) {
        std::fprintf(stderr, "%s: skipped %llu malformed line(s) in all\n", kName,
                     static_cast<unsigned long long>(bad.skipped()));
    }
}

Result<Sent> send_all(const Flags& flags, int stop_fd, BadLines& bad, ProgressLine& progress) {
    auto rules = input_rules(flags.lines);
    ASK_PASS(rules);
    const auto token = read_token(flags.common.token_file);
    ASK_PASS(token);
    if (auto readable = check_readable(flags.files, rules->content); !readable) {
        return std::move(readable).error();
    }
    auto sampled = sample_inputs(flags.files, *rules, stop_fd, kSamplePatience);
    if (!sampled) {
        return std::move(sampled).error();
    }
    SendInputs inputs(flags.files, *rules, bad, flags.spool_mib << 20U);
    if (sampled->first) {
        inputs.begin_with(*std::move(sampled->first));
    }
    for (std::uint32_t run = 1;; ++run) {
        auto stats = send_once(flags, *token, sampled->sample, inputs, stop_fd, progress);
        if (stats) {
            return Sent{*std::move(stats), run};
        }
        if (stats.error().code() != Errc::kRunAgain || run == kMostRuns) {
            return std::move(stats).error();
        }
        if (!inputs.can_repeat()) {
            return Error(Errc::kSwitchLost,
                         stats.error().text() +
                             ", but more has come through a pipe than --spool keeps: run the "
                             "task again");
        }
        progress.note(stats.error().text());
    }
}

Result<FollowRun> follow_run(const Flags& flags) {
    if (flags.files.size() != 1) {
        return Error(Errc::kUsage, "--follow takes one FILE: an ask-send for each");
    }
    if (flags.spool_mib == 0) {
        return Error(Errc::kUsage, "--spool 0: with --follow it is what can be sent again: at least 1");
    }
    auto rules = input_rules(flags.lines);
    ASK_PASS(rules);
    auto token = read_token(flags.common.token_file);
    ASK_PASS(token);
    FollowRun run{
        .stream = {}, .file = flags.files.front(), .state = flags.state, .rules = *std::move(rules)};
    client::StreamSendOptions& stream = run.stream;
    stream.agent = flags.common.agent;
    stream.name = flags.common.task;
    stream.to = flags.to;
    stream.token = *std::move(token);
    stream.deadline = flags.common.deadline();
    stream.spool_bytes = flags.spool_mib << 20U;
    stream.merge_window = flags.merge_window.value_or(stream.merge_window);
    stream.linger = std::chrono::milliseconds(flags.linger_ms);
    stream.as_count = flags.lines.count;
    stream.max_rate = max_rate_of(flags);
    return run;
}

Error left_out_error(const std::string& stream, const client::StreamSent& sent) {
    return {Errc::kSwitchLost, "stream " + stream + ": " + std::to_string(sent.left_out) +
                                   " window(s) were committed without this sender's tuples"};
}

int run_follow(const Flags& flags) {
    auto signals = StopSignals::block();
    if (!signals) {
        return fail(kName, signals.error());
    }
    auto run = follow_run(flags);
    if (!run) {
        return fail(kName, run.error());
    }
    auto stats_file = OutputFile::create("statistics file", flags.common.stats_file);
    if (!stats_file) {
        return fail(kName, stats_file.error());
    }
    ProgressLine progress(kName, flags.common.quiet);
    BadLines bad(flags.lines.skip_bad,
                 [&progress](const std::string& error) { show_skipped(error, progress); });
    const auto sent = follow_input(*std::move(run), *signals, bad, progress);
    progress.clear();
    tell_skipped(bad);
    if (!sent && signals->raised()) {
        std::fprintf(
            stderr, "%s: interrupted: what stream %s has not committed of this sender's tuples %s\n", kName,
            flags.common.task.c_str(),
            flags.state.empty() ? "is lost" : "is sent again when it is started with the same --state");
        return kExitInterrupted;
    }
    if (!sent) {
        return fail(kName, sent.error());
    }
    if (auto written = stats_file->write(stream_stats_json(*sent, bad.skipped())); !written) {
        return fail(kName, written.error());
    }
    if (sent->left_out > 0) {
        return fail(kName, left_out_error(flags.common.task, *sent));
    }
    progress.say("stream " + flags.common.task + ": " + short_count(sent->tuples) + " tuples in " +
                 std::to_string(sent->windows) + " windows" +
                 (sent->late > 0 ? ", " + short_count(sent->late) + " came when it had ended" : ""));
    return 0;
}

int run(const Flags& flags) {
    auto signals = StopSignals::block();
    if (!signals) {
        return fail(kName, signals.error());
    }
    auto stats_file = OutputFile::create("statistics file", flags.common.stats_file);
    if (!stats_file) {
        return fail(kName, stats_file.error());
    }
    ProgressLine progress(kName, flags.common.quiet);
    BadLines bad(flags.lines.skip_bad,
                 [&progress](const std::string& error) { show_skipped(error, progress); });
    auto sent = send_all(flags, signals->fd(), bad, progress);
    progress.clear();
    tell_skipped(bad);
    if (!sent && signals->raised()) {
        std::fprintf(stderr, "%s: interrupted: task %s is torn down\n", kName, flags.common.task.c_str());
        return kExitInterrupted;
    }
    if (!sent) {
        return fail(kName, sent.error());
    }
    if (auto written = stats_file->write(send_stats_json(sent->stats, sent->runs, bad.skipped())); !written) {
        return fail(kName, written.error());
    }
    progress.say(send_summary(flags.common.task, sent->stats));
    return 0;
}

}  // namespace
}  // namespace ask::cli

int main(int argc, char** argv) {
    ask::open_standard_fds();
    CLI::App app("Streams key-value lines into a task that is open on another host.", ask::cli::kName);
    ask::cli::Flags flags;
    ask::cli::add_flags(app, flags);
    if (const int code = ask::cli::parse(app, argc, argv); code >= 0) {
        return code;
    }
    if (flags.files.empty()) {
        flags.files.emplace_back("-");
    }
    return flags.follow ? ask::cli::run_follow(flags) : ask::cli::run(flags);
}
