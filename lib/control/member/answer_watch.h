// SPDX-License-Identifier: Apache-2.0
//
// An application that has said that it answers, and hangs: it was asked, and has said nothing for too long.
// Time goes in, so that it can be run with any clock.
#pragma once

#include <algorithm>

#include "lib/base/runtime.h"
#include "lib/control/member/patience.h"

namespace ask {

class AnswerWatch {
 public:
    // What counts of the time between two looks. More than that has passed where the agent itself was stopped
    // or busy: an answer may have been waiting for it meanwhile.
    static constexpr milliseconds kMostBetweenLooks = 2 * kSessionTick;
    static constexpr milliseconds kLeastPatience{2000};
    static constexpr milliseconds kAskEvery{1000};

    // Of a task with that deadline: those above and below are to hear of it within theirs.
    static milliseconds patience_of(milliseconds deadline) { return std::max(deadline / 2, kLeastPatience); }

    explicit AnswerWatch(milliseconds patience) : patience_(patience) {}

    // Whether it is to be asked, which counts as done: it might not read. Not again soon after an answer,
    // which would wake whoever asks, and so on.
    bool ask(Clock::time_point now) {
        if (asked_ || now < next_) {
            return asked_;
        }
        asked_ = true;
        next_ = now + kAskEvery;
        waited_ = Clock::duration::zero();
        last_look_ = now;
        return true;
    }
    // It has said something, whatever it is.
    void answered() { asked_ = false; }
    // At every look at what it may have said, once that is taken.
    void look(Clock::time_point now) {
        if (asked_) {
            waited_ += std::min<Clock::duration>(now - last_look_, kMostBetweenLooks);
            last_look_ = now;
        }
    }
    [[nodiscard]] bool hangs() const { return asked_ && waited_ > patience_; }
    [[nodiscard]] milliseconds patience() const { return patience_; }

 private:
    milliseconds patience_;
    bool asked_ = false;
    Clock::duration waited_{};  // since then, as far as it counts
    Clock::time_point last_look_{};
    Clock::time_point next_{};  // not to be asked before
};

}  // namespace ask
