// SPDX-License-Identifier: Apache-2.0
#include "loader/copy_barrier.h"

#include <sched.h>

#include <utility>

namespace ask {
namespace {

using Clock = std::chrono::steady_clock;

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
        ::sched_yield();
        word = load(presence);
    }
    return true;
}

}  // namespace

Result<CopyBarrier> CopyBarrier::create(int presence, unsigned cpus, const bpf::RcuBarrier& rcu,
                                        bool rcu_only) {
    auto words = Words::map(presence, cpus);
    ASK_TRY(words, "map presence");
    return CopyBarrier(std::move(*words), rcu, rcu_only);
}

bool CopyBarrier::all_came_out() const {
    // The flip before the look: a program that this look misses reads the new index.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const auto deadline = Clock::now() + kPatience;
    for (const ask_presence& presence : words_.span()) {
        if (!came_out(presence, deadline)) {
            return false;
        }
    }
    return true;
}

Result<> CopyBarrier::wait() {
    waits_.fetch_add(1, std::memory_order_relaxed);
    if (!rcu_only_ && all_came_out()) {
        return {};
    }
    grace_periods_.fetch_add(1, std::memory_order_relaxed);
    return rcu_.wait();
}

}  // namespace ask
