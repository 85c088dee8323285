// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/every.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/runtime.h"
#include "lib/base/waiting.h"
#include "lib/base/wall_clock.h"
#include "lib/client/stream_receive.h"
#include "lib/client/trouble.h"
#include "tools/cli/cli.h"
#include "tools/cli/stream_dir.h"
#include "tools/cli/window_receive.h"

namespace ask::cli {
namespace {

using std::chrono::milliseconds;

constexpr const char* kName = "ask-recv";
// Between two tries to reach an agent that has gone.
constexpr milliseconds kTryAgain{200};
// Windows that do without a relay that was lost, before it is tried again.
constexpr milliseconds kRelayAway{60'000};
// That the agent may take to see that an earlier process has ended.
constexpr milliseconds kToEnd{3'000};

const char* suffix(ResultFormat format) {
    return format == ResultFormat::kCsv ? ".csv" : format == ResultFormat::kJson ? ".json" : ".tsv";
}

// How a connection about the stream has ended, if not in an error.
enum class Ended : std::uint8_t {
    kWhole,  // the stream has
    kAnew,   // the agent does not know what the directory has: it is to be told
};

class Windows {
 public:
    Windows(const EveryOptions& options, const StopSignals& stop, ProgressLine& progress)
        : options_(options), stop_(stop), progress_(progress), trouble_(options.window.deadline) {}
    Result<> open();
    Result<> run();
    [[nodiscard]] bool incomplete() const { return incomplete_; }
    [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
    [[nodiscard]] std::uint64_t committed() const { return dir_ ? dir_->committed() : committed_; }
    void tell_mended();
    [[nodiscard]] client::StreamReceiveOptions stream_options();
    Result<client::StreamReceiver> connect(bool first);
    Result<Ended> serve(client::StreamReceiver& stream);
    Result<> take(client::StreamReceiver& stream, const client::StreamMember& member);
    Result<bool> take(client::StreamReceiver& stream, const client::StreamWindow& window);
    void begin(const client::StreamWindow& window);
    void end_run(std::uint64_t number);
    void go_without(const client::StreamWindow& window, client::ReceiveOptions& options);
    void tell_without(const client::ReceiveReport& report);
    void tell_relays(const std::string& why_none);
    Result<bool> take(WindowResult result);
    Result<> commit(const WindowRow& row, const client::ReceiveResult* result);
    Result<> put(const WindowRow& row, const client::ReceiveResult* result);
    Result<> print(const WindowRow& row, const client::ReceiveResult& result);
    Result<> write(int fd, const client::ReceiveResult* result, const std::string& before_key);
    [[nodiscard]] WindowRow row_of(const client::StreamWindow& window) const;
    [[nodiscard]] WindowRow row_of(std::uint64_t number, const client::ReceiveResult& result) const;
    void tell(const WindowRow& row, const client::ReceiveResult* result);
    Result<> pause(milliseconds time) const;
    [[nodiscard]] std::string about() const { return "stream " + options_.window.task + ": "; }

    const EveryOptions& options_;
    const StopSignals& stop_;
    ProgressLine& progress_;
    client::Trouble trouble_;
    std::optional<StreamDir> dir_;
    // Of a stream to standard output.
    std::uint64_t nonce_ = random_u64();
    std::uint64_t committed_ = 0;
    std::vector<client::StreamMember> members_;
    WindowResults results_;
    std::map<std::uint64_t, std::unique_ptr<WindowReceive>> runs_;
    std::map<std::uint64_t, std::uint64_t> begins_;  // of windows that are not committed, ms
    // That are to begin again, once their last run has said what it has lost.
    std::map<std::uint64_t, client::StreamWindow> waiting_;
    // Of such a window: senders' own switches that its runs have lost, and whether the last one has lost
    // anything that it was not without already.
    struct Lost {
        std::set<std::string> switches{};
        bool is_news = false;
    };
    std::map<std::uint64_t, Lost> lost_;
    std::map<std::string, Clock::time_point> away_;  // relays, and until when windows do without
    std::string without_;                            // whom no switch aggregates for, as that was last said
    std::string no_relays_;                          // why there are none, the same
    std::uint64_t count_ = 0;                        // committed by this process
    bool incomplete_ = false;
    bool finishing_ = false;
};

Result<> Windows::open() {
    if (options_.directory.empty()) {
        return {};
    }
    auto dir = StreamDir::open({.path = options_.directory,
                                .is = {options_.window.task, options_.every, options_.window.op},
                                .suffix = suffix(options_.format),
                                .before_step = options_.before_step});
    ASK_PASS(dir);
    dir_ = *std::move(dir);
    tell_mended();
    return {};
}

void Windows::tell_mended() {
    if (const std::string mended = dir_->take_mended(); !mended.empty()) {
        progress_.warn(about() + mended);
    }
}

client::StreamReceiveOptions Windows::stream_options() {
    return {.agent = options_.window.agent,
            .name = options_.window.task,
            .every = options_.every,
            .senders = options_.senders,
            .deadline = options_.window.deadline,
            .allow_incomplete = options_.window.allow_incomplete,
            .nonce = dir_ ? dir_->nonce() : nonce_,
            .committed = committed(),
            .members = dir_ ? dir_->members() : members_,
            .window = options_.window,
            .cancel_fd = stop_.fd(),
            .on_progress = [this](const client::TaskProgress& now) {
                if (const auto words = trouble_.note(now.state, Clock::now()); words) {
                    progress_.say(*words);
                }
            }};
}

// The agent may be away, later on; and may not have seen yet that an earlier process has ended.
Result<client::StreamReceiver> Windows::connect(bool first) {
    const auto begin = Clock::now();
    for (;;) {
        auto stream = client::StreamReceiver::open(stream_options());
        if (stream) {
            return stream;
        }
        const auto waited = Clock::now() - begin;
        const bool ending = stream.error().code() == Errc::kExists && waited < kToEnd;
        const bool away =
            !first && stream.error().code() == Errc::kUnavailable && waited < options_.window.deadline;
        if (!ending && !away) {
            return stream;
        }
        ASK_PASS(pause(kTryAgain));
    }
}

// kAborted: a signal has come meanwhile.
Result<> Windows::pause(milliseconds time) const {
    const auto ready = wait_readable({stop_.fd()}, time);
    ASK_PASS(ready);
    return *ready != 0 ? Error(Errc::kAborted, "interrupted") : Result<>();
}

Result<> Windows::run() {
    for (bool first = true;; first = false) {
        auto stream = connect(first);
        ASK_PASS(stream);
        progress_.show("open, waiting for senders");
        const auto ended = serve(*stream);
        // Their runs are the connection's; so is which windows are open, which the next one tells again.
        runs_.clear();
        waiting_.clear();
        begins_.clear();
        static_cast<void>(results_.take());
        if (ended && *ended == Ended::kWhole) {
            return {};
        }
        if (!ended && ended.error().code() != Errc::kUnavailable) {
            return ended.error();
        }
        progress_.note(about() + (ended ? "opening it again" : ended.error().text()));
    }
}

Result<Ended> Windows::serve(client::StreamReceiver& stream) {
    finishing_ = false;
    for (;;) {
        if (!finishing_ && options_.finish_after && count_ >= *options_.finish_after) {
            finishing_ = true;
            ASK_PASS(stream.finish());
        }
        auto event = stream.next_or(results_.fd());
        ASK_PASS(event);
        for (WindowResult& result : results_.take()) {
            // First comes what the agent had said by then: that the next window is to be opened, with which
            // this one ends. But for what a run has lost, which the next one has to know.
            if (result.result && event->has_value()) {
                results_.add(std::move(result));
                continue;
            }
            const auto known = take(std::move(result));
            ASK_PASS(known);
            if (!*known) {
                return Ended::kAnew;
            }
        }
        if (!event->has_value()) {
            continue;
        }
        if (std::holds_alternative<client::StreamEnded>(**event)) {
            return Ended::kWhole;
        }
        if (const auto* const member = std::get_if<client::StreamMember>(&**event); member != nullptr) {
            ASK_PASS(take(stream, *member));
            continue;
        }
        const auto known = take(stream, std::get<client::StreamWindow>(**event));
        ASK_PASS(known);
        if (!*known) {
            return Ended::kAnew;
        }
    }
}

Result<> Windows::take(client::StreamReceiver& stream, const client::StreamMember& member) {
    if (dir_) {
        ASK_PASS(dir_->note(member));
    } else {
        std::erase_if(members_,
                      [&member](const client::StreamMember& each) { return each.member == member.member; });
        members_.push_back(member);
    }
    return stream.noted(member);
}

// False: it is committed already.
Result<bool> Windows::take(client::StreamReceiver& stream, const client::StreamWindow& window) {
    if (window.number <= committed()) {
        return false;
    }
    begins_[window.number] = window.begins_ms;
    if (!window.empty) {
        // The agent asks for it once more if its last run says nothing.
        const bool waits = runs_.contains(window.number) && !waiting_.contains(window.number);
        if (waits) {
            waiting_.emplace(window.number, window);
        } else {
            begin(window);
        }
        return true;
    }
    const WindowRow row = row_of(window);
    ASK_PASS(commit(row, nullptr));
    ASK_PASS(stream.empty_taken(window.number));
    return true;
}

// What has failed may have done so because of the switch: one window goes without. If it is known which of
// several switches or relays was lost, without that, as long as that is news.
void Windows::go_without(const client::StreamWindow& window, client::ReceiveOptions& options) {
    Lost& lost = lost_[window.number];
    const bool is_news = std::exchange(lost.is_news, false);
    std::erase_if(away_, [](const auto& entry) { return Clock::now() >= entry.second; });
    for (const auto& [relay, until] : away_) {
        if (options.placement) {
            options.placement = options.placement->without(relay);
        }
    }
    options.without_switches.assign(lost.switches.begin(), lost.switches.end());
    if (window.again && !is_news && !options.require_region) {
        options.placement.reset();
        options.no_switch = true;
    } else if (options.placement && options.placement->relays.empty()) {
        options.placement.reset();
    }
}

void Windows::begin(const client::StreamWindow& window) {
    client::ReceiveOptions options = options_.window;
    options.task = window.task_id;
    options.stream = options_.window.task;
    options.window = window.number;
    go_without(window, options);
    end_run(window.number);
    waiting_.erase(window.number);
    runs_.emplace(window.number, std::make_unique<WindowReceive>(std::move(options), results_));
}

// Of one that has not ended by itself nothing is heard.
void Windows::end_run(std::uint64_t number) {
    if (runs_.erase(number) == 0) {
        return;
    }
    for (WindowResult& result : results_.take()) {
        if (result.number != number || result.result) {
            results_.add(std::move(result));
        }
    }
}

// False: the agent may not know that it is committed.
Result<bool> Windows::take(WindowResult result) {
    if (!result.result) {
        // The agent's log says more; it begins again.
        Lost& lost = lost_[result.number];
        const std::size_t known = lost.switches.size();
        lost.switches.insert(result.lost_switches.begin(), result.lost_switches.end());
        lost.is_news = lost.switches.size() > known || !result.lost_relays.empty();
        for (const std::string& relay : result.lost_relays) {
            away_[relay] = Clock::now() + kRelayAway;
        }
        progress_.note(about() + "window " + std::to_string(result.number) +
                       " begins again: " + result.error);
        runs_.erase(result.number);
        if (const auto waits = waiting_.extract(result.number); !waits.empty()) {
            begin(waits.mapped());
        }
        return true;
    }
    const WindowRow row = row_of(result.number, *result.result);
    ASK_PASS(commit(row, &*result.result));
    tell_relays(result.session->info().no_relays);
    const auto confirmed = result.session->confirm();
    runs_.erase(result.number);
    return confirmed.ok();
}

WindowRow Windows::row_of(const client::StreamWindow& window) const {
    WindowRow row;
    row.number = window.number;
    row.begins_ms = window.begins_ms;
    row.ends_ms = window.ends_ms;
    row.state = "empty";
    return row;
}

WindowRow Windows::row_of(std::uint64_t number, const client::ReceiveResult& result) const {
    WindowRow row;
    row.number = number;
    const auto at = begins_.find(number);
    row.begins_ms = at->second;
    // Until the next one that was opened begins.
    const auto next = std::next(at);
    const auto every = static_cast<std::uint64_t>(milliseconds(options_.every).count());
    row.ends_ms = next == begins_.end() ? row.begins_ms + every : next->second;
    const auto now = static_cast<std::uint64_t>(unix_ms());
    row.late_ms = now > row.ends_ms ? now - row.ends_ms : 0;
    row.keys = result.table.size();
    row.tuples = result.report.stats.tuples_in;
    row.state = result.report.missing.empty() ? "whole" : "incomplete";
    for (const client::MissingSenders& missing : result.report.missing) {
        row.missing += (row.missing.empty() ? "" : "; ") + client::describe(missing);
    }
    return row;
}

// Where it stays, once this returns; a disk without room is waited for.
Result<> Windows::commit(const WindowRow& row, const client::ReceiveResult* result) {
    for (;;) {
        auto written = put(row, result);
        if (written) {
            break;
        }
        if (!dir_ || dir_->committed() >= row.number || written.error().code() != Errc::kLimit) {
            return written;
        }
        progress_.say(about() + "window " + window_time(row.begins_ms) +
                      " is not committed: " + written.error().text() + "; tried again every " +
                      std::to_string(options_.every.count()) + " s");
        ASK_PASS(pause(milliseconds(options_.every)));
    }
    begins_.erase(begins_.begin(), begins_.upper_bound(row.number));
    lost_.erase(lost_.begin(), lost_.upper_bound(row.number));
    ++count_;
    tell(row, result);
    return dir_ && options_.keep ? dir_->keep(*options_.keep) : Result<>();
}

Result<> Windows::write(int fd, const client::ReceiveResult* result, const std::string& before_key) {
    ResultWriter::Style style = options_.style;
    style.before_key = before_key;
    ResultWriter out(fd, style);
    return result == nullptr
               ? out.finish()
               : write_table(result->table, style.mean_decimals.has_value(), options_.order, out);
}

Result<> Windows::put(const WindowRow& row, const client::ReceiveResult* result) {
    if (!dir_) {
        if (result != nullptr) {
            ASK_TRY(write(STDOUT_FILENO, result, window_time(row.begins_ms)), "standard output");
        }
        committed_ = row.number;
        return {};
    }
    const bool with_table = result != nullptr || !options_.skip_empty;
    UniqueFd table;
    if (with_table) {
        auto begun = dir_->begin(row.number);
        ASK_PASS(begun);
        table = *std::move(begun);
        ASK_TRY(write(table.get(), result, {}), options_.directory);
    }
    ASK_PASS(dir_->prepare(row, table.get()));
    tell_mended();
    return dir_->commit(row, with_table);
}

// Said even into a pipe, and not for each window: it is slower then, for no other visible reason.
void Windows::tell_without(const client::ReceiveReport& report) {
    std::string without;
    for (const client::SenderWithoutSwitch& sender : report.without) {
        without += (without.empty() ? "" : "; ") + sender.name + ": " + sender.reason;
    }
    if (std::exchange(without_, without) != without && !without.empty()) {
        progress_.say(about() + "no switch aggregates for " + without);
    }
}

void Windows::tell_relays(const std::string& why_none) {
    if (std::exchange(no_relays_, why_none) != why_none && !why_none.empty()) {
        progress_.say(about() + "no relays: " + why_none);
    }
}

void Windows::tell(const WindowRow& row, const client::ReceiveResult* result) {
    const std::string name = "window " + window_time(row.begins_ms);
    if (result != nullptr) {
        tell_without(result->report);
    }
    if (row.state == "incomplete") {
        incomplete_ = true;
        for (const client::MissingSenders& missing : result->report.missing) {
            // Even with --quiet: whoever asked for it must be able to tell it from a whole one.
            progress_.warn(about() + "incomplete: " + name + " holds " + client::describe(missing));
        }
    }
    progress_.show(name + " is committed: " + row.state + ", " + short_count(row.keys) + " keys, " +
                   short_count(row.tuples) + " tuples");
}

}  // namespace

int receive_every(const EveryOptions& options, const StopSignals& stop, ProgressLine& progress) {
    Windows windows(options, stop, progress);
    if (auto opened = windows.open(); !opened) {
        return fail(kName, opened.error());
    }
    const auto ended = windows.run();
    progress.clear();
    if (!ended && stop.raised()) {
        std::fprintf(stderr,
                     "%s: interrupted: stream %s goes on when ask-recv is started again%s; senders keep what "
                     "is not committed\n",
                     kName, options.window.task.c_str(),
                     options.directory.empty() ? ", though not with these senders" : " with this directory");
        return kExitInterrupted;
    }
    if (!ended) {
        const int code = fail(kName, ended.error());
        return ended.error().sys_errno() == EPIPE ? kExitBrokenPipe : code;
    }
    progress.say("stream " + options.window.task + " has ended: " + std::to_string(windows.count()) +
                 " windows committed");
    return windows.incomplete() ? kExitIncomplete : 0;
}

}  // namespace ask::cli
