// SPDX-License-Identifier: Apache-2.0
//
// Whether a flow's packets keep coming by another way than through the switch that was joined (design: The
// mark). One that strays is sent again; a path that stays wrong would let the sender try for ever.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lib/base/runtime.h"

namespace ask {

class MarkWatch {
 public:
    using Time = Clock::time_point;

    // Both count from the flow's start: packets that came the right way, and those without the joined mark.
    void note(Time now, std::uint64_t good, std::uint64_t bad) {
        if (good != good_) {
            only_bad_ = false;
        } else if (bad != bad_) {
            since_ = only_bad_ ? since_ : now;
            only_bad_ = true;
            last_bad_ = now;
        }
        good_ = good;
        bad_ = bad;
    }
    // Only packets with a wrong mark have come since one with the right one, if any came at all.
    [[nodiscard]] bool only_bad() const { return only_bad_; }
    // They kept coming for so long. An idle sender's last stray packet does not count on.
    [[nodiscard]] bool persists(std::chrono::milliseconds limit) const {
        return only_bad_ && last_bad_ - since_ >= limit;
    }

 private:
    std::uint64_t good_ = 0;
    std::uint64_t bad_ = 0;
    bool only_bad_ = false;
    Time since_;  // the first bad one after the last good one, if only_bad_
    Time last_bad_;
};

// Of a flow's packets: how many came with no mark of the task's switches, and with that of one not the
// flow's.
[[nodiscard]] inline std::string strays_text(std::uint64_t round, std::uint64_t other) {
    const std::string by_round = "go round the switch (" + std::to_string(round) + " came without its mark)";
    const std::string by_other =
        "pass another of the task's switches (" + std::to_string(other) + " came with that one's mark)";
    return "its packets " + (other == 0 ? by_round : (round == 0 ? by_other : by_round + ", or " + by_other));
}

}  // namespace ask
