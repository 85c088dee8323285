// SPDX-License-Identifier: Apache-2.0
#include "lib/control/switch/copy_barrier.h"

#include "lib/base/runtime.h"

namespace ask {
namespace {

std::uint64_t load(const ask_presence& presence) {
    return __atomic_load_n(&presence.word, __ATOMIC_ACQUIRE);
}

bool inside(std::uint64_t word) {
    return (word & ASK_PRESENCE_DEPTH) != 0;
}

// Until the programs that are inside now have come out: the depth has been 0 at some moment since. Others
// that came in later have read the flipped index.
bool came_out(const ask_presence& presence, Clock::time_point deadline) {
    const std::uint64_t first = load(presence);
    std::uint64_t word = first;
    while (inside(word) && word >> 32U == first >> 32U) {
        if (Clock::now() >= deadline) {
            return false;
        }
        // The CPU may be this one's sibling, or wait for this thread to let it run.
        yield_thread();
        word = load(presence);
    }
    return true;
}

}  // namespace

bool CopyBarrier::all_came_out() const {
    // The flip before the look: a program that this look misses reads the new index.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const auto deadline = Clock::now() + kPatience;
    for (const ask_presence& presence : store_.presence()) {
        if (!came_out(presence, deadline)) {
            return false;
        }
    }
    return true;
}

Result<> CopyBarrier::wait() {
    if (!rcu_only_ && all_came_out()) {
        return {};
    }
    grace_periods_.fetch_add(1, std::memory_order_relaxed);
    return store_.grace_period();
}

}  // namespace ask
