// SPDX-License-Identifier: Apache-2.0
//
// ask-recv: opens a task and prints its result.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/abi/limits.h"
#include "lib/base/standard_fds.h"
#include "lib/client/means.h"
#include "lib/client/receive_session.h"
#include "lib/text/decimal.h"
#include "tools/cli/causes.h"
#include "tools/cli/cli.h"
#include "tools/cli/duration_flag.h"
#include "tools/cli/every.h"
#include "tools/cli/output.h"
#include "tools/cli/output_file.h"
#include "tools/cli/placement_file.h"
#include "tools/cli/progress.h"
#include "tools/cli/rate.h"
#include "tools/cli/stats_json.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/swap_flag.h"
#include "tools/cli/table.h"
#include "tools/cli/token.h"
#include "tools/cli/write_table.h"

namespace ask::cli {
namespace {

constexpr const char* kName = "ask-recv";
// UDP payload that fits an MTU of 1500: how many rows a geometry gets when it names none.
constexpr unsigned kUsualPayload = 1472;

struct Flags {
    CommonFlags common;
    std::uint32_t senders = 0;
    bool any_senders = false;
    std::string op = "sum";
    unsigned scale = 0;
    unsigned decimals = 6;
    std::string geometry = "auto";
    std::uint32_t aggregators = 0;
    std::string swap = "off";
    bool no_switch = false;
    std::string switches = "one";
    std::string placement;
    std::uint32_t k = 0;
    std::string objective;
    bool no_back = false;
    bool require_region = false;
    std::string policy = "auto";
    bool allow_incomplete = false;
    std::vector<std::string> from;
    std::string output = "-";
    std::string sort;  // empty: by value if there is a `top`, else by key
    std::uint64_t top = client::ResultMap::kAll;
    std::string format = "tsv";
    bool again = false;
    // Of a stream.
    std::string every;
    std::string out;
    std::optional<std::size_t> keep;
    bool skip_empty = false;
    std::optional<std::uint64_t> finish_after;

    [[nodiscard]] bool to_stdout() const { return output == "-"; }
    [[nodiscard]] client::ResultMap::Order order() const {
        const bool by_value = sort.empty() ? top != client::ResultMap::kAll : sort == "value";
        return by_value ? client::ResultMap::Order::kValue : client::ResultMap::Order::kKey;
    }
};

void add_flags(CLI::App& app, Flags& flags) {
    add_common_flags(app, flags.common);
    app.add_option("--output", flags.output,
                   "write the result there: whole and on disk, or not at all; -: standard output")
        ->type_name("FILE")
        ->capture_default_str();
    app.add_option(
           "--sort", flags.sort,
           "what comes first: key, by the keys' bytes; value, the largest, equal ones by key (default: "
           "key, or value with --top)")
        ->check(CLI::IsMember({"key", "value"}))
        ->type_name("BY");
    app.add_option("--top", flags.top,
                   "print the first N only: the largest values, or with --sort key the first keys")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 48U))
        ->type_name("N");
    app.add_option(
           "--format", flags.format,
           "tsv: key<TAB>value lines; csv: with a header, as RFC 4180 has it; json: a list of objects")
        ->check(CLI::IsMember(result_format_names()))
        ->type_name("F")
        ->capture_default_str();
    app.add_option("--senders", flags.senders,
                   "how many sends make the task whole; of a stream, how many it waits for before its first "
                   "window, or any")
        ->transform(CLI::Validator(
            [&flags](std::string& text) {
                flags.any_senders = text == "any";
                text = flags.any_senders ? "0" : text;
                return flags.any_senders ? std::string() : CLI::Range(1U, ASK_MAX_SENDERS)(text);
            },
            ""))
        ->type_name("N");
    app.add_option("--op", flags.op,
                   "how values of equal keys are combined: sum, count, min, max, or mean, which prints "
                   "key<TAB>mean<TAB>sum<TAB>count")
        ->check(CLI::IsMember(client::task_op_names()))
        ->type_name("OP")
        ->capture_default_str();
    app.add_option("--scale", flags.scale,
                   "print values divided by 10^K, with K decimals, for senders with the same --scale")
        ->check(CLI::Range(0U, kMaxScale))
        ->type_name("K")
        ->capture_default_str();
    app.add_option("--decimals", flags.decimals, "of means: the nearest number with so many decimals")
        ->check(CLI::Range(0U, kMaxScale))
        ->type_name("D")
        ->capture_default_str();
    app.add_option(
           "--geometry", flags.geometry,
           "SHORT+GROUPSxM[*ROWS]: slots of a packet's row, e.g. 16+8x2*4; auto: chosen by samples of "
           "the senders' keys; default: the paper's, 16+8x2")
        ->type_name("G")
        ->capture_default_str();
    app.add_option("--aggregators", flags.aggregators,
                   "aggregators per array on the switch (default: by the samples, and by what is free there)")
        ->check(CLI::Range(1U, ASK_MAX_AGGREGATORS))
        ->type_name("N");
    app.add_option(
           "--swap", flags.swap,
           "when the switch's shadow copies are swapped, so that early cold keys make room: off, auto, or "
           "any of packets=N, tuples=N and every=MS, separated by commas")
        ->type_name("WHEN")
        ->capture_default_str();
    app.add_flag("--no-switch", flags.no_switch, "aggregate on this host only");
    app.add_option("--switches", flags.switches,
                   "who aggregates: one, this host's own switch; own, each sender's own, from all of which "
                   "this host fetches")
        ->check(CLI::IsMember({"one", "own"}))
        ->type_name("WHICH")
        ->capture_default_str();
    app.add_flag("--no-back", flags.no_back,
                 "no back level: tuples that find no aggregator on the switch are added up here");
    app.add_option("--placement", flags.placement,
                   "which switches aggregate, by the relays beside them: what ask-plan printed as JSON (- is "
                   "standard input), or auto: what the agent's controller says")
        ->type_name("FILE");
    app.add_option("--k", flags.k,
                   "with --placement auto: at most so many switches; 0: the controller's choice")
        ->type_name("K")
        ->capture_default_str();
    app.add_option(
           "--objective", flags.objective,
           "with --placement auto: what is to be least: utilisation, bottleneck or bytes (default: the "
           "controller's)")
        ->check(CLI::IsMember({"utilisation", "bottleneck", "bytes"}))
        ->type_name("O");
    app.add_flag("--require-region", flags.require_region, "fail if the switch has no memory for the task");
    app.add_option("--policy", flags.policy,
                   "who keeps an aggregator that two keys want: first-come, replace (a hotter key takes a "
                   "colder one's place) or auto")
        ->check(CLI::IsMember(client::task_policy_names()))
        ->type_name("P")
        ->capture_default_str();
    app.add_flag(
        "--allow-incomplete", flags.allow_incomplete,
        "go on without senders that die: the result then lacks an unknown part of theirs, and the exit "
        "code is 20");
    app.add_option("--from", flags.from,
                   "hosts that may send, by name or address, separated by commas (default: any of this one's "
                   "tenant, or, with a token, who shows it)")
        ->delimiter(',')
        ->type_name("HOST,...");
    CLI::Option* const again =
        app.add_flag("--again", flags.again,
                     "take a result of this task that is kept here because its ask-recv did not take it");
    for (CLI::Option* const option : app.get_options()) {
        const std::string name = option->get_name();
        if (name != "--help" && name != "--task" && name != "--deadline" && name != "--stats" &&
            name != "--agent" && name != "--output" && name != "--again" && name != "--version" &&
            name != "--sort" && name != "--top" && name != "--format" && name != "--decimals") {
            again->excludes(option);
        }
    }
    app.callback([&app, &flags] {
        if (!flags.again && app.count("--senders") == 0) {
            throw CLI::RequiredError("--senders");
        }
        if (flags.any_senders && flags.every.empty()) {
            throw CLI::ValidationError("--senders", "any is for streams: --every");
        }
        if (!flags.again && app.count("--decimals") > 0 && flags.op != "mean") {
            throw CLI::ValidationError("--decimals", "is for means: --op mean");
        }
        if (!flags.to_stdout() && flags.output == flags.common.stats_file) {
            throw CLI::ValidationError("--output", "--stats names the same file");
        }
    });
    app.footer(
        "Prints key<TAB>value lines, sorted by the keys' bytes unless flags say otherwise, once every sender "
        "has "
        "finished. Exit codes and more: docs/commands.md.");
}

void add_every_flags(CLI::App& app, Flags& flags) {
    CLI::Option* const every =
        app.add_option("--every", flags.every,
                       "a stream: a result of every so long (1s to 1d: 10s, 5m, 1h), until it is finished")
            ->check([](const std::string& text) {
                const auto time = parse_every(text);
                return time ? std::string() : time.error().text();
            })
            ->type_name("TIME");
    app.add_option(
           "--out", flags.out,
           "of a stream: the directory that its windows are committed to, a file each; without it they "
           "go to standard output, as lines of window<TAB>key<TAB>value")
        ->needs(every)
        ->type_name("DIR");
    app.add_option("--keep", flags.keep, "with --out: remove the oldest windows' files but for N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32U))
        ->needs("--out")
        ->type_name("N");
    app.add_flag("--skip-empty", flags.skip_empty, "with --out: no files of windows that no sender was in")
        ->needs("--out");
    app.add_option("--finish-after", flags.finish_after,
                   "of a stream: no more windows than are open once N have been committed")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 48U))
        ->needs(every)
        ->type_name("N");
    for (const char* const other : {"--again", "--output", "--stats", "--swap"}) {
        every->excludes(app.get_option(other));
    }
}

Result<client::ReceiveOptions> options_from(const Flags& flags) {
    if (flags.op == "count" && flags.scale > 0) {
        return Error(Errc::kUsage, "--scale is for values, and --op count has none: leave out one of them");
    }
    if (flags.op == "mean" && flags.allow_incomplete) {
        return Error(Errc::kUsage,
                     "--allow-incomplete: of a sender that dies, a key's sum and its count may lack other "
                     "tuples, so --op mean is whole or an error: leave out one of them");
    }
    client::ReceiveOptions options;
    options.agent = flags.common.agent;
    options.task = flags.common.task;
    options.again = flags.again;
    options.senders = flags.again ? 1 : flags.senders;
    options.op = client::parse_task_op(flags.op).value_or(client::TaskOp::kSum);
    options.deadline = flags.common.deadline();
    options.aggregators = flags.aggregators;
    auto swap = parse_swap(flags.swap);
    ASK_TRY(swap, "--swap");
    options.swap = *swap;
    options.no_switch = flags.no_switch;
    options.own_switches = flags.switches == "own";
    if (options.no_switch && options.own_switches) {
        return Error(Errc::kUsage, "--switches own: and --no-switch leaves switches out: choose one");
    }
    if (flags.placement != "auto" && (flags.k != 0 || !flags.objective.empty())) {
        return Error(Errc::kUsage, "--k and --objective are for --placement auto: a file has its own");
    }
    if (flags.placement == "auto") {
        options.place = client::PlaceWish{.objective = flags.objective, .k = flags.k, .excluded = {}};
    } else if (!flags.placement.empty()) {
        auto placement = read_placement(flags.placement);
        ASK_TRY(placement, "--placement");
        options.placement = *std::move(placement);
    }
    options.no_back = flags.no_back;
    options.require_region = flags.require_region;
    options.policy = client::parse_task_policy(flags.policy).value_or(client::TaskPolicy::kAuto);
    options.allow_incomplete = flags.allow_incomplete;
    options.from = flags.from;
    if (!flags.again) {
        auto token = read_token(flags.common.token_file);
        ASK_PASS(token);
        options.token = *std::move(token);
    }
    options.default_geometry = flags.geometry == "default";
    if (flags.geometry != "auto" && !options.default_geometry) {
        auto geometry = parse_geometry(flags.geometry, kUsualPayload);
        if (!geometry) {
            return Error(Errc::kUsage, "--geometry: " + geometry.error().text());
        }
        options.geometry = *geometry;
    }
    return options;
}

// That the switch has no memory for the task is said even into a pipe: it is slower then, for no other
// visible reason.
void tell_opened(const client::ReceiveInfo& info, ProgressLine& progress) {
    if (!info.geometry_reason.empty()) {
        progress.note("geometry " + to_string(info.geometry) + ", " + info.geometry_reason);
    }
    if (!info.no_relays.empty()) {
        progress.say("no relays: " + info.no_relays);
    }
    if (info.no_memory) {
        progress.say("no memory on the switch, everything is added up here: " + info.note);
    } else if (!info.note.empty()) {
        progress.note(info.note);
    }
}

// What came of hosts only their relays know.
std::string relayed_summary(const std::string& task, const client::ReceiveReport& report) {
    return "task " + task + ": " + grouped(report.stats.tuples_in) + " tuples from " +
           std::to_string(report.senders.size()) + " that sent here; " +
           std::to_string(report.relays.size()) +
           (report.relays.size() == 1 ? " switch has" : " switches have") + " aggregated, each with a relay";
}

TaskSetup setup_of(const client::ReceiveInfo& info, const Flags& flags, const client::ReceiveReport& report) {
    // Each switch has as many.
    std::uint32_t most = report.switches.empty() ? info.aggregators : 0;
    for (const client::TaskSwitchReport& at : report.switches) {
        most = std::max(most, at.aggregators);
    }
    return {.longest_key = info.geometry.max_slot_key(),
            .aggregators = most,
            .note = info.note,
            .whole_keys = info.back_bytes > 0,
            .own_switches = flags.switches == "own",
            .planned = !info.geometry_reason.empty()};
}

struct Received {
    client::ReceiveSession session;
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
    // Also into a pipe where the plan is not what was asked for any more.
    options->on_run_again = [&progress, &flags](const Error& why) {
        flags.placement.empty() ? progress.note(why.text()) : progress.say(why.text());
    };
    options->on_open = [&progress](const client::ReceiveInfo& info) { tell_opened(info, progress); };
    auto session = client::ReceiveSession::open(*std::move(options));
    if (!session) {
        return std::move(session).error();
    }
    progress.show(flags.again ? "taking the result of task " + flags.common.task
                              : "open, waiting for " + std::to_string(flags.senders) + " sender(s)");
    auto result = session->wait();
    if (!result) {
        return std::move(result).error();
    }
    return Received{*std::move(session), *std::move(result)};
}

// Said even into a pipe: whoever asked for it must be able to tell it from a whole result.
void tell_missing(const client::ReceiveReport& report) {
    for (const client::MissingSenders& missing : report.missing) {
        std::fprintf(stderr, "%s: incomplete: the result holds %s\n", kName, describe(missing).c_str());
    }
}

// Where the result goes.
struct Destination {
    int fd = STDOUT_FILENO;
    OutputFile* file = nullptr;         // null: standard output
    const StopSignals* stop = nullptr;  // ends the writing; null: the signals end the process
};

// Some file systems tell only then that there is no room.
Result<> close_copy(int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return copy < 0 || ::close(copy) != 0 ? Error::from_errno(errno, "close") : Result<>();
}

// Whether it has a sum and a count of each key. One that was kept says so itself.
bool is_of_means(const Flags& flags, const client::ReceiveReport& report) {
    return report.op.value_or(client::parse_task_op(flags.op).value_or(client::TaskOp::kSum)) ==
           client::TaskOp::kMean;
}

// Returns once every byte was accepted, and a file has its name.
Result<> put(const Flags& flags, Received& received, const Destination& to) {
    client::ReceiveSession& session = received.session;
    const bool of_means = is_of_means(flags, received.result.report);
    const ResultWriter::Style style{parse_result_format(flags.format).value_or(ResultFormat::kTsv),
                                    flags.scale,
                                    of_means ? std::optional(flags.decimals) : std::nullopt,
                                    {}};
    ResultWriter out(to.fd, style, [&]() -> Result<> {
        session.taking();
        return to.stop != nullptr && to.stop->raised() ? Error(Errc::kAborted, "interrupted") : Result<>();
    });
    ASK_PASS(write_table(received.result.table, of_means, {flags.order(), flags.top}, out,
                         [&session] { session.taking(); }));
    return to.file != nullptr ? to.file->finish(true) : close_copy(to.fd);
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

// Said even into a pipe: it is slower then, for no other visible reason.
void tell_without(const client::ReceiveReport& report, ProgressLine& progress) {
    const auto aggregates = [](const client::TaskSwitchReport& at) { return at.aggregators > 0; };
    if (report.runs > 1 && std::ranges::none_of(report.switches, aggregates)) {
        return;  // without any, which has been said
    }
    for (const client::TaskSwitchReport& at : report.switches) {
        if (at.aggregators == 0 && !at.note.empty()) {
            progress.say("switch " + at.address + " has aggregated nothing for " + joined(at.senders) + ": " +
                         at.note);
        }
    }
    for (const client::SenderWithoutSwitch& sender : report.without) {
        progress.say("no switch has aggregated for " + sender.name + ": " + sender.reason);
    }
}

// The senders wait for somebody who takes it.
int not_taken(const Flags& flags, const Received& received, const Error& error) {
    const auto kept_for = received.result.report.kept_for.count();
    const std::string where = flags.to_stdout() ? "standard output: " : "output file " + flags.output + ": ";
    const bool named = error.text().starts_with("output file ");
    std::fprintf(stderr, "%s: %s%s: the result of task %s is not taken, ", kName, named ? "" : where.c_str(),
                 error.text().c_str(), flags.common.task.c_str());
    if (kept_for > 0) {
        std::fprintf(stderr, "and kept for %lld s: ask-recv --task %s --again takes it\n",
                     static_cast<long long>(kept_for), flags.common.task.c_str());
    } else {
        std::fprintf(stderr, "and lost, because this host's agent keeps none (keep_result_seconds)\n");
    }
    // Whoever reads has had enough (`| head`), as with any filter.
    return error.sys_errno() == EPIPE       ? kExitBrokenPipe
           : error.code() == Errc::kAborted ? kExitInterrupted
                                            : static_cast<int>(error.code());
}

int finish(const Flags& flags, Received& received, const Destination& to, OutputFile& stats_file,
           ProgressLine& progress) {
    const client::ReceiveResult& result = received.result;
    tell_missing(result.report);
    if (auto done = put(flags, received, to); !done) {
        return not_taken(flags, received, done.error());
    }
    if (auto confirmed = received.session.confirm(); !confirmed) {
        // It is all here, whatever they say.
        std::fprintf(stderr, "%s: warning: the result is whole, but its senders may report failure: %s\n",
                     kName, confirmed.error().text().c_str());
    }
    int code = result.report.missing.empty() ? 0 : kExitIncomplete;
    if (!flags.common.stats_file.empty()) {
        const std::string json = receive_stats_json(received.session.info(), result.report);
        if (auto written = stats_file.write(json); !written) {
            code = fail(kName, written.error());
        }
    }
    tell_without(result.report, progress);
    if (!result.report.relays.empty()) {
        progress.say(relayed_summary(flags.common.task, result.report));
    } else if (!flags.again) {
        progress.say(receive_summary(flags.common.task, result.report.stats,
                                     setup_of(received.session.info(), flags, result.report)));
    }
    return code;
}

Result<EveryOptions> every_options(const Flags& flags) {
    auto window = options_from(flags);
    ASK_PASS(window);
    // Nobody waits for samples at every window.
    window->default_geometry = window->default_geometry || !window->geometry;
    const ResultFormat format = parse_result_format(flags.format).value_or(ResultFormat::kTsv);
    if (flags.out.empty() && format != ResultFormat::kTsv) {
        return Error(Errc::kUsage,
                     "--format " + flags.format +
                         ": a stream's windows are such files with --out DIR; to standard output "
                         "they are lines of tsv");
    }
    const auto every = parse_every(flags.every);
    ASK_TRY(every, "--every");
    if (flags.any_senders && window->from.empty() && window->token.empty()) {
        return Error(Errc::kUsage,
                     "--senders any takes whoever may send: say who, with --from or --token-file");
    }
    if (window->place) {
        return Error(
            Errc::kUsage,
            "--placement auto: a stream's windows go by a plan that is given: --placement FILE, from "
            "ask-plan --json, or --switches own");
    }
    if (window->placement &&
        (window->no_switch || window->own_switches || window->require_region || window->allow_incomplete)) {
        return Error(
            Errc::kUsage,
            "--placement says which switches aggregate, and needs all senders: leave out --no-switch, "
            "--switches own, --require-region and --allow-incomplete");
    }
    const bool of_means = window->op == client::TaskOp::kMean;
    return EveryOptions{
        .window = *std::move(window),
        .every = *every,
        .senders = flags.senders,
        .directory = flags.out,
        .format = format,
        .style = {format, flags.scale, of_means ? std::optional(flags.decimals) : std::nullopt, {}},
        .order = {flags.order(), flags.top},
        .keep = flags.keep,
        .skip_empty = flags.skip_empty,
        .finish_after = flags.finish_after};
}

int run_every(const Flags& flags) {
    auto signals = StopSignals::block();
    if (!signals) {
        return fail(kName, signals.error());
    }
    const auto options = every_options(flags);
    if (!options) {
        return fail(kName, options.error());
    }
    ProgressLine progress(kName, flags.common.quiet);
    if (options->directory.empty()) {
        progress.say(
            "stream " + flags.common.task +
            " goes to standard output: should this process end, it is over for its senders (--out DIR "
            "goes on)");
    }
    return receive_every(*options, *signals, progress);
}

int run(const Flags& flags) {
    if (flags.to_stdout() && flags.out.empty() && !is_writable(STDOUT_FILENO)) {
        return fail(kName, Error(Errc::kUsage,
                                 "standard output is closed, so the result has nowhere to go: "
                                 "redirect it to a file"));
    }
    if (!flags.every.empty()) {
        return run_every(flags);
    }
    auto signals = StopSignals::block();
    if (!signals) {
        return fail(kName, signals.error());
    }
    auto stats_file = OutputFile::create("statistics file", flags.common.stats_file);
    if (!stats_file) {
        return fail(kName, stats_file.error());
    }
    auto output = OutputFile::create("output file", flags.to_stdout() ? "" : flags.output);
    if (!output) {
        return fail(kName, output.error());
    }
    ProgressLine progress(kName, flags.common.quiet);
    auto result = receive(flags, signals->fd(), progress);
    progress.clear();
    if (!result && signals->raised()) {
        const std::string left = flags.again ? "the result of task " + flags.common.task + " stays kept"
                                             : "task " + flags.common.task + " is torn down on all hosts";
        std::fprintf(stderr, "%s: interrupted: %s\n", kName, left.c_str());
        return kExitInterrupted;
    }
    if (!result) {
        return fail(kName, result.error());
    }
    if (output->replaces()) {
        return finish(flags, *result, {output->fd(), &*output, &*signals}, *stats_file, progress);
    }
    // There is nothing left to tear down, and a stuck reader must not hold us.
    signals->unblock();
    return finish(flags, *result, {flags.to_stdout() ? STDOUT_FILENO : output->fd()}, *stats_file, progress);
}

}  // namespace
}  // namespace ask::cli

int main(int argc, char** argv) {
    ask::open_standard_fds();
    CLI::App app("Opens a task for senders on other hosts and prints its result.", ask::cli::kName);
    ask::cli::Flags flags;
    ask::cli::add_flags(app, flags);
    ask::cli::add_every_flags(app, flags);
    if (const int code = ask::cli::parse(app, argc, argv); code >= 0) {
        return code;
    }
    return ask::cli::run(flags);
}
