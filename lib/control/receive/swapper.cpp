// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/swapper.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/control/member/copy_reader.h"
#include "lib/control/member/patience.h"

namespace ask {
namespace {

constexpr milliseconds kConfirmWait{10000};
constexpr milliseconds kRetryAfter{100};

Nanos since_start(Clock::time_point now) {
    return std::chrono::nanoseconds(now.time_since_epoch()).count();
}

// Or a while from now: whoever waits looks again.
Clock::time_point point_of(Nanos time) {
    constexpr std::chrono::hours kLongest{1};
    return std::min(Clock::time_point(std::chrono::nanoseconds(time)), Clock::now() + kLongest);
}

// The controller is away, slow or busy: it may be back.
bool may_pass(const Error& error) {
    return error.code() == Errc::kUnavailable || error.code() == Errc::kDeadline ||
           error.code() == Errc::kLimit;
}

}  // namespace

Swapper::Swapper(Options options, ResultTable table)
    : options_(std::move(options)),
      table_(std::move(table)),
      policy_(options_.settings, options_.places, since_start(Clock::now())),
      thread_([this] { run(); }) {}

Swapper::~Swapper() {
    abandon_ = true;
    finish_ = true;
    cancel_.cancel();
    options_.arrivals->wake();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void Swapper::finish(Clock::time_point deadline) {
    {
        const Guard lock(mutex_);
        deadline_ = deadline;
    }
    finish_ = true;
    options_.arrivals->wake();
}

Result<Swapper::Outcome> Swapper::take() {
    thread_.join();
    ASK_PASS(result_);
    return Outcome{std::move(table_), epoch_, fetched_};
}

void Swapper::run() {
    swap_until_told();
    if (swaps() > 0) {
        spdlog::info("task {}: {} swaps, {} entries, mean {} us, longest {} us", options_.id, swaps(),
                     fetched_, times_.total / kMicrosecond / static_cast<Nanos>(swaps()),
                     times_.longest / kMicrosecond);
    }
    ended_ = true;
    options_.mailbox->post(SessionEvent::Kind::kChanged);
}

void Swapper::swap_until_told() {
    while (wait_for_turn()) {
        if (result_ = swap(); !result_) {
            result_ = std::move(result_).error().with_context("task " + options_.id);
            options_.mailbox->post(
                SessionEvent{SessionEvent::Kind::kSwitchLost, {}, Error(result_.error()), options_.mark});
            return;
        }
    }
}

// False: no more swaps are wanted.
bool Swapper::wait_for_turn() {
    while (!finish_) {
        const Nanos now = since_start(Clock::now());
        if (policy_.due(now, options_.arrivals->totals())) {
            return true;
        }
        const SwapPolicy::Alarm alarm = policy_.alarm();
        options_.arrivals->set_alarm(alarm.packets, alarm.tuples);
        options_.arrivals->wait(point_of(alarm.at));
    }
    return false;
}

Result<> Swapper::swap() {
    const auto started = Clock::now();
    under_way_ = true;
    const auto copy = insist("swap", [&] {
        return options_.client->fetch_copy({.region = options_.region,
                                            .mark = options_.mark,
                                            .epoch = epoch_,
                                            .close = true,
                                            .wait = wait_of(kFetchWait)},
                                           &cancel_);
    });
    ASK_PASS(copy);
    ASK_PASS(merge(*copy));
    const auto confirmed = insist("confirm", [&] {
        return options_.client->confirm_copy(options_.region, epoch_, wait_of(kConfirmWait), &cancel_);
    });
    ASK_PASS(confirmed);
    ++epoch_;
    swaps_.fetch_add(1, std::memory_order_relaxed);
    under_way_ = false;
    const Nanos took = std::chrono::nanoseconds(Clock::now() - started).count();
    times_.total += took;
    times_.longest = std::max(times_.longest, took);
    policy_.done(copy->count, copy->tuples_aggregated());
    return {};
}

Clock::time_point Swapper::deadline() {
    const Guard lock(mutex_);
    return deadline_;
}

milliseconds Swapper::wait_of(milliseconds longest) {
    return at_most(longest, std::min(deadline(), Clock::now() + options_.standstill));
}

template <typename Call>
auto Swapper::insist(const char* what, Call call) -> decltype(call()) {
    for (;;) {
        auto result = call();
        if (result.ok() || !may_pass(result.error())) {
            return result;
        }
        spdlog::debug("task {}: {}: {}; will be tried again", options_.id, what, result.error().text());
        if (auto waited = pause_before_retry(what); !waited) {
            return std::move(waited).error();
        }
    }
}

Result<> Swapper::pause_before_retry(const char* what) {
    if (abandon_) {
        return Error(Errc::kAborted, "given up");
    }
    if (Clock::now() >= deadline()) {
        return Error(Errc::kDeadline, options_.client->name() + " did not " + what +
                                          " the task's copies in time: start ask-switchd there");
    }
    options_.arrivals->wait(Clock::now() + kRetryAfter);
    return {};
}

Result<> Swapper::merge(const FetchedCopy& copy) {
    ASK_PASS(merge_copy(table_, copy));
    fetched_ += copy.count;
    return {};
}

}  // namespace ask
