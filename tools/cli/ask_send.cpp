// SPDX-License-Identifier: Apache-2.0
//
// ask-send: streams lines into a task.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/client/send_session.h"
#include "lib/text/stats_json.h"
#include "tools/cli/cli.h"
#include "tools/cli/input.h"
#include "tools/cli/progress.h"
#include "tools/cli/sampling.h"
#include "tools/cli/stats_file.h"
#include "tools/cli/stop_signals.h"

namespace ask::cli {
namespace {

constexpr const char* kName = "ask-send";
// How long a pipe may take to show something of its keys.
constexpr std::chrono::milliseconds kSamplePatience{100};

struct Flags {
    CommonFlags common;
    std::string to;
    bool count = false;
    std::optional<std::uint32_t> merge_window;
    std::vector<std::string> files;
};

void add_flags(CLI::App& app, Flags& flags) {
    add_common_flags(app, flags.common);
    app.add_option("--to", flags.to, "host that receives the task: a name or an IPv4 address")
        ->required()
        ->type_name("HOST");
    app.add_flag("--count", flags.count, "every line is a key, counted as 1");
    app.add_option("--merge-window", flags.merge_window,
                   "hold back this many tuples to merge equal keys; 0: none (default: the agent's)")
        ->check(CLI::Range(0U, 1U << 20))
        ->type_name("N");
    app.add_option("FILE", flags.files,
                   "lines of key<TAB>value; - is standard input, which is also the default");
    app.footer(
        "Keys are written with \\\\ \\t \\n \\r \\0 and \\xHH for bytes that do not show. Exit codes and "
        "more: "
        "docs/commands.md.");
}

Result<client::TaskStats> send_all(const Flags& flags, int stop_fd, ProgressLine& progress) {
    if (auto readable = check_readable(flags.files); !readable) {
        return std::move(readable).error();
    }
    const LineForm form = flags.count ? LineForm::kKey : LineForm::kKeyValue;
    auto sampled = sample_inputs(flags.files, form, stop_fd, kSamplePatience);
    if (!sampled) {
        return std::move(sampled).error();
    }
    progress.show("looking for task " + flags.common.task + " at " + flags.to);
    auto session = client::SendSession::open({
        .agent = flags.common.agent,
        .task = flags.common.task,
        .to = flags.to,
        .merge_window = flags.merge_window,
        .deadline = flags.common.deadline(),
        .sample = sampled->sample,
        .as_count = flags.count,
        .cancel_fd = stop_fd,
        .on_progress = [&progress](const client::TaskProgress& now) { progress.show(describe_send(now)); },
    });
    if (!session) {
        return std::move(session).error();
    }
    for (const std::string& file : flags.files) {
        auto input = sampled->first ? *std::exchange(sampled->first, std::nullopt) : open_input(file);
        if (!input) {
            return std::move(input).error();
        }
        if (auto sent = send_input(*session, *std::move(input), form, stop_fd); !sent) {
            return std::move(sent).error();
        }
    }
    return session->finish();
}

int run(const Flags& flags) {
    auto signals = StopSignals::block();
    if (!signals) {
        return fail(kName, signals.error());
    }
    auto stats_file = StatsFile::create(flags.common.stats_file);
    if (!stats_file) {
        return fail(kName, stats_file.error());
    }
    ProgressLine progress(kName);
    auto stats = send_all(flags, signals->fd(), progress);
    progress.clear();
    if (!stats && signals->raised()) {
        std::fprintf(stderr, "%s: interrupted: task %s is torn down\n", kName, flags.common.task.c_str());
        return kExitInterrupted;
    }
    if (!stats) {
        return fail(kName, stats.error());
    }
    if (auto written = stats_file->write(send_stats_json(*stats)); !written) {
        return fail(kName, written.error());
    }
    return 0;
}

}  // namespace
}  // namespace ask::cli

int main(int argc, char** argv) {
    CLI::App app("Streams key-value lines into a task that is open on another host.", ask::cli::kName);
    ask::cli::Flags flags;
    ask::cli::add_flags(app, flags);
    if (const int code = ask::cli::parse(app, argc, argv); code >= 0) {
        return code;
    }
    if (flags.files.empty()) {
        flags.files.emplace_back("-");
    }
    return ask::cli::run(flags);
}
