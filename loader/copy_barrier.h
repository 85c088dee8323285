// SPDX-License-Identifier: Apache-2.0
//
// Waiting until no program can still be writing to a copy that has just been flipped away from.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "lib/abi/map_types.h"
#include "lib/base/result.h"
#include "lib/bpf/barrier.h"
#include "lib/bpf/map.h"

namespace ask {

// Reads each CPU's presence word (bpf/engine/presence.bpf.h) and waits for those that are inside:
// microseconds. A CPU that does not come out in time, e.g. because the hypervisor has taken it away, is
// waited for by an RCU grace period instead, which is exact on its own.
class CopyBarrier {
 public:
    // How long presence words are watched before the grace period. 0: never.
    static constexpr std::chrono::microseconds kPatience{500};

    // `rcu` must outlive it. `presence` is the map's descriptor, with an entry per possible CPU.
    static Result<CopyBarrier> create(int presence, unsigned cpus, const bpf::RcuBarrier& rcu, bool rcu_only);

    // Call after the index has been flipped. Any thread.
    Result<> wait();

    // How often it waited, and how often that took a grace period.
    [[nodiscard]] std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t grace_periods() const {
        return grace_periods_.load(std::memory_order_relaxed);
    }

    CopyBarrier(CopyBarrier&& other) noexcept
        : words_(std::move(other.words_)), rcu_(other.rcu_), rcu_only_(other.rcu_only_) {}
    CopyBarrier& operator=(CopyBarrier&&) = delete;
    CopyBarrier(const CopyBarrier&) = delete;
    CopyBarrier& operator=(const CopyBarrier&) = delete;
    ~CopyBarrier() = default;

 private:
    using Words = bpf::ArrayView<const ask_presence>;
    CopyBarrier(Words words, const bpf::RcuBarrier& rcu, bool rcu_only)
        : words_(std::move(words)), rcu_(rcu), rcu_only_(rcu_only) {}
    [[nodiscard]] bool all_came_out() const;

    Words words_;
    const bpf::RcuBarrier& rcu_;
    bool rcu_only_;
    std::atomic<std::uint64_t> waits_{0};
    std::atomic<std::uint64_t> grace_periods_{0};
};

}  // namespace ask
