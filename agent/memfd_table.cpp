// SPDX-License-Identifier: Apache-2.0
#include "agent/memfd_table.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <numeric>
#include <string>
#include <utility>

namespace ask {
namespace {

std::size_t round_to_pages(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    return (bytes + kPage - 1) / kPage * kPage;
}

// A description of the file of its own, so that the kernel counts it apart from others.
Result<UniqueFd> open_to_read(int fd) {
    UniqueFd again(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
    if (!again) {
        return Error::from_errno(errno, "open a sealed table to read");
    }
    return again;
}

// Whether somebody else has the file open, mapped, or on its way through a socket: only then the kernel
// refuses a write lease so. One that cannot be had for another reason says nothing.
bool is_held(const UniqueFd& own) {
    // The lease is gone as soon as it was had; a signal for whoever opens the file in between is ignored.
    ::fcntl(own.get(), F_SETSIG, SIGURG);
    return ::fcntl(own.get(), F_SETLEASE, F_WRLCK) != 0 && errno == EAGAIN;
}

}  // namespace

bool MemoryBudget::reserve(std::size_t bytes) {
    if (!reserve_here(bytes)) {
        return false;
    }
    if (whole_ != nullptr && !whole_->reserve(bytes)) {
        used_.fetch_sub(bytes, std::memory_order_relaxed);
        return false;
    }
    return true;
}

bool MemoryBudget::reserve_here(std::size_t bytes) {
    if (try_reserve(bytes)) {
        return true;
    }
    look_at_held();
    while (!try_reserve(bytes)) {
        if (!reclaim_ || bytes > limit_ || too_many_held() || !reclaim_()) {
            return false;
        }
    }
    return true;
}

void MemoryBudget::give_up(UniqueFd own, std::size_t bytes, std::shared_ptr<TableGrant> grant) {
    if (!is_held(own)) {
        if (grant) {
            grant->give(bytes);
        } else {
            release(bytes);
        }
        return;
    }
    if (counters_ != nullptr) {
        counters_->add(AgentCounter::k_blocks_held);
    }
    (whole_ != nullptr ? *whole_ : *this).note_held({std::move(own), bytes, this, std::move(grant)});
}

void MemoryBudget::note_held(Held block) {
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(block));
    held_number_ = held_.size();
}

void MemoryBudget::forget_held() {
    const std::lock_guard lock(mutex_);
    held_.clear();
    held_number_ = 0;
}

std::size_t MemoryBudget::look_at_held() {
    if (whole_ != nullptr) {
        return whole_->look_at_held();
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [](const Held& block) {
        const bool gone = !is_held(block.own);
        if (gone && block.grant) {
            block.grant->give(block.bytes);
        } else if (gone) {
            block.paid_by->release(block.bytes);
        }
        return gone;
    });
    held_number_ = held_.size();
    return std::accumulate(held_.begin(), held_.end(), std::size_t{0},
                           [](std::size_t sum, const Held& block) { return sum + block.bytes; });
}

Error MemoryBudget::refusal(std::size_t bytes) {
    if (whole_ != nullptr && bytes <= limit_ - std::min(limit_, used())) {
        return whole_->refusal(bytes);
    }
    const std::size_t held_bytes = look_at_held();
    const std::string held = held_bytes == 0 ? ""
                                             : ", " + std::to_string(held_bytes >> 20U) +
                                                   " of them for results that applications hold";
    const std::string most = std::to_string(limit_ >> 20U) + " MiB";
    if (whole_ == nullptr) {
        return {Errc::kLimit, "the tables of this agent would take more than " + most + held +
                                  ": raise table_limit_mib, or receive fewer distinct keys"};
    }
    return {Errc::kLimit, "the tables of user " + std::to_string(user_) + " would take more than the " +
                              most +
                              " that those of one user may: raise quota_table_mib, or receive fewer "
                              "distinct keys"};
}

Result<SharedBlock> SharedBlock::create(const char* name, MemoryBudget* budget,
                                        std::shared_ptr<TableGrant> grant) {
    SharedBlock block;
    block.fd_.reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!block.fd_) {
        return Error::from_errno(errno, "make shared memory for a table");
    }
    block.budget_ = budget;
    block.grant_ = std::move(grant);
    return block;
}

SharedBlock::~SharedBlock() {
    if (memory_ != nullptr) {
        ::munmap(memory_, size_);
    }
    fd_.reset();
    if (own_) {
        budget_->give_up(std::move(own_), size_, std::move(grant_));
    } else if (budget_ != nullptr) {
        pay_back(size_);
    }
}

Result<> SharedBlock::pay(std::size_t bytes) {
    if (!grant_) {
        return budget_->reserve(bytes) ? Result<>() : budget_->refusal(bytes);
    }
    if (grant_->take(bytes)) {
        return {};
    }
    // Perhaps an application has let go of a part meanwhile.
    budget_->look_at_held();
    return grant_->take(bytes) ? Result<>()
                               : Error(Errc::kLimit, "the tables of this task would take more than its " +
                                                         std::to_string(grant_->limit() >> 20U) + " MiB");
}

void SharedBlock::pay_back(std::size_t bytes) {
    if (grant_) {
        grant_->give(bytes);
    } else {
        budget_->release(bytes);
    }
}

Result<> SharedBlock::grow(std::size_t bytes) {
    const std::size_t wanted = round_to_pages(bytes);
    if (wanted <= size_) {
        return {};
    }
    const std::size_t more = wanted - size_;
    ASK_PASS(pay(more));
    // Allocated now, so that a full system is an error here rather than a signal later.
    if (::fallocate(fd_.get(), 0, static_cast<off_t>(size_), static_cast<off_t>(more)) != 0) {
        const int error = errno;
        pay_back(more);
        return Error::from_errno(error, "grow a table's shared memory");
    }
    void* const memory = memory_ == nullptr
                             ? ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0)
                             : ::mremap(memory_, size_, wanted, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) {
        const int error = errno;
        pay_back(more);
        return Error::from_errno(error, "map a table's shared memory");
    }
    memory_ = static_cast<std::byte*>(memory);
    size_ = wanted;
    return {};
}

Result<> SharedBlock::seal() {
    if (memory_ != nullptr) {
        ::munmap(memory_, size_);
        memory_ = nullptr;
    }
    if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
        return Error::from_errno(errno, "seal a table");
    }
    auto own = open_to_read(fd_.get());
    ASK_PASS(own);
    auto others = open_to_read(fd_.get());
    ASK_PASS(others);
    own_ = std::move(*own);
    fd_ = std::move(*others);
    return {};
}

Result<> MemfdTableMemory::check_most(std::size_t bytes, std::size_t others) const {
    const std::size_t all = round_to_pages(bytes) + others;
    return all <= most_ ? Result<>()
                        : Error(Errc::kLimit, "a table of this task would take more than its " +
                                                  std::to_string(most_ >> 10U) + " KiB of the reserve");
}

Result<std::span<std::byte>> MemfdTableMemory::allocate_slots(std::size_t bytes) {
    ASK_PASS(check_most(bytes, slots_.size() + keys_.size()));
    auto fresh = SharedBlock::create("ask-table-slots", budget_, grant_);
    if (!fresh) {
        return std::move(fresh).error();
    }
    if (auto grown = fresh->grow(bytes); !grown) {
        return std::move(grown).error();
    }
    old_slots_ = std::move(slots_);
    slots_ = std::move(*fresh);
    return slots_.bytes().first(bytes);
}

void MemfdTableMemory::note(Event event) {
    if (counters_ != nullptr) {
        counters_->add(event == Event::kReseeded ? AgentCounter::k_tables_reseeded
                                                 : AgentCounter::k_tables_crowded);
    }
}

Result<std::span<std::byte>> MemfdTableMemory::grow_keys(std::size_t bytes) {
    ASK_PASS(check_most(bytes, slots_.size() + old_slots_.size()));
    if (keys_.bytes().empty()) {
        auto fresh = SharedBlock::create("ask-table-keys", budget_, grant_);
        if (!fresh) {
            return std::move(fresh).error();
        }
        keys_ = std::move(*fresh);
    }
    if (auto grown = keys_.grow(bytes); !grown) {
        return std::move(grown).error();
    }
    return keys_.bytes();
}

Result<std::shared_ptr<const SealedTable>> MemfdTableMemory::take_sealed() {
    old_slots_ = {};
    if (keys_.bytes().empty()) {
        // A table without keys still has a heap, an empty one.
        auto none = grow_keys(1);
        if (!none) {
            return std::move(none).error();
        }
    }
    ASK_PASS(slots_.seal());
    ASK_PASS(keys_.seal());
    return std::shared_ptr<const SealedTable>(
        std::make_shared<const MemfdSealed>(std::move(slots_), std::move(keys_)));
}

void MemfdTables::set_reclaim(std::function<bool(std::optional<std::uint32_t> user)> reclaim) {
    reclaim_ = std::move(reclaim);
    budget_.set_reclaim([this] { return reclaim_(std::nullopt); });
}

MemoryBudget& MemfdTables::budget_of(std::uint32_t user) {
    if (user == 0) {
        return budget_;
    }
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = users_.try_emplace(user, quota_, user, budget_);
    if (fresh && reclaim_) {
        at->second.set_reclaim([this, user] { return reclaim_(user); });
    }
    return at->second;
}

Result<std::shared_ptr<TableGrant>> MemfdTables::grant(std::uint32_t user, std::size_t bytes) {
    MemoryBudget& budget = budget_of(user);
    if (!budget.reserve(bytes)) {
        return budget.refusal(bytes);
    }
    return std::shared_ptr<TableGrant>(std::make_shared<MemfdGrant>(budget, bytes));
}

Result<> MemfdTables::check_room(std::uint32_t user, std::uint64_t keys, std::uint64_t key_bytes) {
    const std::uint64_t least = ResultTable::least_memory(keys, key_bytes);
    MemoryBudget& budget = budget_of(user);
    return least <= std::min(budget.limit(), budget_.limit()) ? Result<>() : budget.refusal(least);
}

Result<std::shared_ptr<const SealedTable>> MemfdTables::seal(ResultTable table) {
    // Every table of this agent has memory of this kind.
    return static_cast<MemfdTableMemory&>(table.memory()).take_sealed();
}

}  // namespace ask
