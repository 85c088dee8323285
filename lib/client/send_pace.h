// SPDX-License-Identifier: Apache-2.0
//
// How far a sender of a stream reads ahead of its windows' runs: by what they take. Whoever reads as fast as
// the input comes, and sends more slowly, has windows that come later and later, until its spool is full.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ask::client {

class SendPace {
 public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kPeriod{250};
    // Tuples that are no matter of pace: more than are held back to be merged, which come all at once.
    static constexpr std::uint64_t kLeast = 1U << 18U;
    // Of a window's time, that what waits takes to be sent.
    static constexpr unsigned kPart = 4;

    // By whoever has sent so many.
    void sent(std::uint64_t tuples) { sent_.fetch_add(tuples, std::memory_order_relaxed); }
    // Whether so many, which wait for runs that are under way, are enough for the time being. Not while runs
    // take nothing: what holds them up has nothing to do with how many there are. By the thread that reads.
    [[nodiscard]] bool is_enough(std::uint64_t waiting, std::chrono::milliseconds every,
                                 Clock::time_point now) {
        if (waiting <= kLeast) {
            return false;
        }
        const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
        if (now - since_ >= 4 * kPeriod) {
            a_second_ = 0;  // of a time when nobody asked it says nothing
            before_ = sent;
            since_ = now;
        } else if (now - since_ >= kPeriod) {
            a_second_ =
                static_cast<double>(sent - before_) / std::chrono::duration<double>(now - since_).count();
            before_ = sent;
            since_ = now;
        }
        const double seconds = std::chrono::duration<double>(every).count() / kPart;
        return a_second_ > 0 && static_cast<double>(waiting) > a_second_ * seconds;
    }

 private:
    std::atomic<std::uint64_t> sent_{0};
    double a_second_ = 0;
    std::uint64_t before_ = 0;
    Clock::time_point since_{};
};

}  // namespace ask::client
