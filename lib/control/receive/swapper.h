// SPDX-License-Identifier: Apache-2.0
//
// Has the shadow copies of one task swapped while it runs (design section 8): decides when, stages a closed
// epoch's copy, merges it whole and once, and confirms it. A thread of its own, so that a switch controller
// that is slow or away delays nothing but the swap.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/runtime.h"
#include "lib/control/member/call_cancel.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/switch_port.h"
#include "lib/control/receive/task_arrivals.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/swap_policy.h"

namespace ask {

class Swapper {
 public:
    struct Options {
        std::string id;  // of the task
        RegionId region;
        Mark mark;
        std::shared_ptr<SwitchPort> client;
        milliseconds standstill{0};  // longest that it may take to answer
        SwapSettings settings;
        std::uint64_t places = 0;  // aggregators of a copy
        std::shared_ptr<TaskArrivals> arrivals;
        std::shared_ptr<Mailbox> mailbox;  // told if the task cannot be saved
    };
    // What it has merged, and the epoch in which the task goes on.
    struct Outcome {
        ResultTable table;
        std::uint64_t epoch = 0;
        std::uint64_t fetched = 0;
    };

    // `table` is empty, of the task's operator.
    Swapper(Options options, ResultTable table);
    // Gives up whatever is under way.
    ~Swapper();
    Swapper(const Swapper&) = delete;
    Swapper& operator=(const Swapper&) = delete;

    // Begins no more swaps, and gives the one under way, if any, until the deadline; a copy that is still
    // coming in then may come to its end. The mailbox is told (kChanged) once ended() is true; then take()
    // has the outcome, once.
    void finish(Clock::time_point deadline);
    [[nodiscard]] bool ended() const { return ended_; }
    Result<Outcome> take();
    // From any thread: swaps confirmed so far.
    [[nodiscard]] std::uint64_t swaps() const { return swaps_.load(std::memory_order_relaxed); }
    // From when it was due until the old copy is blank.
    [[nodiscard]] bool under_way() const { return under_way_.load(std::memory_order_relaxed); }
    struct Times {
        Nanos total = 0;
        Nanos longest = 0;
    };
    // Of the swaps done; once ended().
    [[nodiscard]] Times times() const { return times_; }

 private:
    void run();
    bool wait_for_turn();
    void swap_until_told();
    Result<> swap();
    // Repeats `call` until it succeeds, fails for good, or time is up.
    template <typename Call>
    auto insist(const char* what, Call call) -> decltype(call());
    Result<> pause_before_retry(const char* what);
    // For a call that may take so long.
    milliseconds wait_of(milliseconds longest);
    Clock::time_point deadline();
    Result<> merge(const FetchedCopy& copy);

    const Options options_;
    ResultTable table_;
    SwapPolicy policy_;
    std::uint64_t epoch_ = 0;
    std::uint64_t fetched_ = 0;
    std::atomic<std::uint64_t> swaps_{0};
    std::atomic<bool> under_way_{false};
    Times times_;

    std::atomic<bool> finish_{false};
    std::atomic<bool> abandon_{false};
    std::atomic<bool> ended_{false};
    Mutex mutex_;
    Clock::time_point deadline_ = Clock::time_point::max();  // under mutex_
    CallCancel cancel_;
    Result<> result_;  // of the thread, once joined
    Thread thread_;
};

}  // namespace ask
