// SPDX-License-Identifier: Apache-2.0
//
// Memory of a task's table in memfds, so that the table can be handed to the application as it stands: sealed
// against any change, and no longer mapped here. It is paid for until nobody has it any more, here or in an
// application.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/unique_fd.h"
#include "lib/control/member/counters.h"
#include "lib/control/member/table_store.h"
#include "lib/tuples/result_table.h"

namespace ask {

// What all tables of an agent may take together, or those of one of its users, bytes. Thread-safe.
class MemoryBudget {
 public:
    // Blocks that applications hold, a descriptor each: beyond so many nothing more is reserved.
    static constexpr std::size_t kMostHeld = 4096;

    explicit MemoryBudget(std::size_t limit, AgentCounters* counters = nullptr)
        : limit_(limit), counters_(counters) {}
    // A user's part of `whole`, which outlives it: what is reserved here is reserved there, too.
    MemoryBudget(std::size_t limit, std::uint32_t user, MemoryBudget& whole)
        : limit_(limit), counters_(whole.counters_), whole_(&whole), user_(user) {}
    // Before anybody reserves: who can give something up for those that need it now. It returns false once
    // there is nothing more.
    void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
    [[nodiscard]] bool reserve(std::size_t bytes);
    void release(std::size_t bytes) {
        used_.fetch_sub(bytes, std::memory_order_relaxed);
        if (whole_ != nullptr) {
            whole_->release(bytes);
        }
    }
    // Why so much could not be reserved.
    [[nodiscard]] Error refusal(std::size_t bytes);
    [[nodiscard]] std::size_t limit() const { return limit_; }
    [[nodiscard]] std::size_t used() const { return used_.load(std::memory_order_relaxed); }

    // Sealed memory that was paid for, here or from a grant, and is given up here: released now, or once no
    // application holds it any more. `own` is the only descriptor of its description.
    void give_up(UniqueFd own, std::size_t bytes, std::shared_ptr<TableGrant> grant);
    // What applications still hold is nobody's any more.
    void forget_held();
    // Looks which of it applications still hold, and releases the rest: to be called now and then, since
    // nobody says when they let go. Bytes that they hold.
    std::size_t look_at_held();

 private:
    struct Held {
        UniqueFd own;
        std::size_t bytes;
        MemoryBudget* paid_by;
        std::shared_ptr<TableGrant> grant;  // instead; null: the budget
    };
    [[nodiscard]] bool reserve_here(std::size_t bytes);
    void note_held(Held block);
    [[nodiscard]] bool too_many_held() const {
        return held_number_.load(std::memory_order_relaxed) >= kMostHeld;
    }
    [[nodiscard]] bool try_reserve(std::size_t bytes) {
        if (too_many_held()) {
            return false;
        }
        std::size_t used = used_.load(std::memory_order_relaxed);
        do {
            if (bytes > limit_ - used) {
                return false;
            }
        } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        return true;
    }

    const std::size_t limit_;
    AgentCounters* const counters_;
    MemoryBudget* const whole_ = nullptr;
    const std::uint32_t user_ = 0;  // of a part
    std::function<bool()> reclaim_;
    std::atomic<std::size_t> used_{0};
    std::mutex mutex_;
    std::vector<Held> held_;  // of the whole, those of its parts, too
    std::atomic<std::size_t> held_number_{0};
};

// A budget's, which outlives it.
class MemfdGrant final : public TableGrant {
 public:
    // That `bytes` were reserved for.
    MemfdGrant(MemoryBudget& budget, std::size_t bytes) : TableGrant(bytes), budget_(budget) {}
    ~MemfdGrant() override { budget_.release(limit()); }
    [[nodiscard]] MemoryBudget& budget() const { return budget_; }

 private:
    MemoryBudget& budget_;
};

// One memfd and its mapping, paid for from a budget, or from a grant of it.
class SharedBlock {
 public:
    SharedBlock() = default;
    static Result<SharedBlock> create(const char* name, MemoryBudget* budget,
                                      std::shared_ptr<TableGrant> grant = nullptr);
    SharedBlock(SharedBlock&& other) noexcept { swap(other); }
    SharedBlock& operator=(SharedBlock&& other) noexcept {
        SharedBlock old(std::move(*this));
        swap(other);
        return *this;
    }
    ~SharedBlock();

    // At least so long; contents stay, the address may change. kLimit.
    Result<> grow(std::size_t bytes);
    [[nodiscard]] std::span<std::byte> bytes() const { return {memory_, size_}; }
    [[nodiscard]] std::size_t size() const { return size_; }
    // Unmaps, and seals against writing, growing and shrinking: only fd() is of use afterwards, to read, for
    // applications.
    Result<> seal();
    [[nodiscard]] int fd() const { return fd_.get(); }

 private:
    Result<> pay(std::size_t bytes);
    void pay_back(std::size_t bytes);
    void swap(SharedBlock& other) noexcept {
        std::swap(fd_, other.fd_);
        std::swap(own_, other.own_);
        std::swap(memory_, other.memory_);
        std::swap(size_, other.size_);
        std::swap(budget_, other.budget_);
        std::swap(grant_, other.grant_);
    }

    UniqueFd fd_;
    UniqueFd own_;  // once sealed: tells whether others still have what fd() is
    std::byte* memory_ = nullptr;
    std::size_t size_ = 0;
    MemoryBudget* budget_ = nullptr;
    std::shared_ptr<TableGrant> grant_;
};

// Slots and keys, in this order.
class MemfdSealed final : public SealedTable {
 public:
    MemfdSealed(SharedBlock slots, SharedBlock keys) : slots_(std::move(slots)), keys_(std::move(keys)) {}
    [[nodiscard]] std::vector<int> descriptors() const override { return {slots_.fd(), keys_.fd()}; }
    [[nodiscard]] std::size_t bytes() const override { return slots_.size() + keys_.size(); }

 private:
    const SharedBlock slots_;
    const SharedBlock keys_;
};

// Not thread-safe: belongs to whoever owns the table.
class MemfdTableMemory : public TableMemory {
 public:
    // `budget` outlives it.
    explicit MemfdTableMemory(MemoryBudget* budget, AgentCounters* counters = nullptr)
        : budget_(budget), counters_(counters) {}
    // Out of a grant, and no more than `most` of it.
    MemfdTableMemory(std::shared_ptr<MemfdGrant> grant, std::size_t most, AgentCounters* counters)
        : budget_(&grant->budget()), grant_(std::move(grant)), most_(most), counters_(counters) {}

    HashSeed draw_seed() override { return make_seed(random_u64); }
    void note(Event event) override;
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override;
    void release_old_slots() override { old_slots_ = {}; }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override;

    // For the application. The table is unusable afterwards.
    Result<std::shared_ptr<const SealedTable>> take_sealed();

 private:
    // Whether it may take so much besides these.
    [[nodiscard]] Result<> check_most(std::size_t bytes, std::size_t others) const;

    MemoryBudget* budget_;
    std::shared_ptr<MemfdGrant> grant_;
    std::size_t most_ = SIZE_MAX;
    AgentCounters* counters_;
    SharedBlock slots_;
    SharedBlock old_slots_;
    SharedBlock keys_;
};

class MemfdTables final : public TableStore {
 public:
    // What all tables may take together, bytes, and of it those of one user; root's have no limit of their
    // own.
    MemfdTables(std::size_t limit, std::size_t quota, AgentCounters* counters)
        : budget_(limit, counters), quota_(quota), counters_(counters) {}
    // Grants that are held point to their user's budget, which goes first.
    ~MemfdTables() override { budget_.forget_held(); }
    [[nodiscard]] MemoryBudget& budget() { return budget_; }
    // As MemoryBudget::set_reclaim(); what is given up for a user's quota is his own.
    void set_reclaim(std::function<bool(std::optional<std::uint32_t> user)> reclaim);

    [[nodiscard]] std::unique_ptr<TableMemory> make_memory(std::uint32_t user) override {
        return std::make_unique<MemfdTableMemory>(&budget_of(user), counters_);
    }
    Result<std::shared_ptr<TableGrant>> grant(std::uint32_t user, std::size_t bytes) override;
    [[nodiscard]] std::unique_ptr<TableMemory> make_memory(std::shared_ptr<TableGrant> grant,
                                                           std::size_t most) override {
        // Every grant of this agent is of this kind.
        return std::make_unique<MemfdTableMemory>(std::static_pointer_cast<MemfdGrant>(std::move(grant)),
                                                  most, counters_);
    }
    [[nodiscard]] Result<> check_room(std::uint32_t user, std::uint64_t keys,
                                      std::uint64_t key_bytes) override;
    Result<std::shared_ptr<const SealedTable>> seal(ResultTable table) override;

 private:
    [[nodiscard]] MemoryBudget& budget_of(std::uint32_t user);

    MemoryBudget budget_;
    const std::size_t quota_;
    AgentCounters* const counters_;
    std::function<bool(std::optional<std::uint32_t> user)> reclaim_;
    std::mutex mutex_;
    std::map<std::uint32_t, MemoryBudget> users_;  // for good: a host has so many
};

}  // namespace ask
