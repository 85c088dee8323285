// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

namespace ask::bench {

// Keeps this thread on one CPU while it lives: one register set is in use then, and "aggregators in all"
// means what it says.
class Pinned {
 public:
    Pinned() {
        ::sched_getaffinity(0, sizeof(before_), &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
        ::sched_setaffinity(0, sizeof(one), &one);
    }
    ~Pinned() { ::sched_setaffinity(0, sizeof(before_), &before_); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

 private:
    cpu_set_t before_{};
};

}  // namespace ask::bench
