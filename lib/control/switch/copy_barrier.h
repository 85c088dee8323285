// SPDX-License-Identifier: Apache-2.0
//
// Waiting until no program can still be writing to a copy that has just been flipped away from.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "lib/base/result.h"
#include "lib/control/switch/store.h"

namespace ask {

// Reads each CPU's presence word (bpf/presence.bpf.h) and waits for those that are inside: microseconds. A
// CPU that does not come out in time, e.g. because the hypervisor has taken it away, is waited for by an RCU
// grace period instead, which is exact on its own.
class CopyBarrier {
 public:
    // How long presence words are watched before the grace period.
    static constexpr std::chrono::microseconds kPatience{500};

    // `store` must outlive it. `rcu_only`: never looks at presence words.
    CopyBarrier(const SwitchStore& store, bool rcu_only) : store_(store), rcu_only_(rcu_only) {}

    // Call after the index has been flipped. Any thread.
    Result<> wait();

    // How often that took a grace period.
    [[nodiscard]] std::uint64_t grace_periods() const {
        return grace_periods_.load(std::memory_order_relaxed);
    }

 private:
    [[nodiscard]] bool all_came_out() const;

    const SwitchStore& store_;
    const bool rcu_only_;
    std::atomic<std::uint64_t> grace_periods_{0};
};

}  // namespace ask
