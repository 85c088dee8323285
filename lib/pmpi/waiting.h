// SPDX-License-Identifier: Apache-2.0
//
// Waiting as MPI does: whatever else the program has given MPI to do must go on meanwhile (MPI-4.0, 3.7.4),
// or a rank that waits for a message of this one would never come to the operation that this one waits in.
#pragma once

#include <sched.h>
#include <time.h>

namespace ask::pmpi {

// Between two looks: others' turn at first, then 50 us of sleep.
class Pause {
 public:
    static constexpr long kMicroseconds = 50;

    // False: it is time to sleep.
    bool yields() {
        if (looks_ == kQuick) {
            return false;
        }
        ++looks_;
        ::sched_yield();
        return true;
    }
    void once() {
        if (!yields()) {
            const timespec some{.tv_sec = 0, .tv_nsec = kMicroseconds * 1000};
            ::nanosleep(&some, nullptr);
        }
    }

 private:
    static constexpr unsigned kQuick = 64;
    unsigned looks_ = 0;
};

}  // namespace ask::pmpi
