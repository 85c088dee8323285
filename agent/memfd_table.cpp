// SPDX-License-Identifier: Apache-2.0
#include "agent/memfd_table.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <string>

namespace ask {
namespace {

std::size_t round_to_pages(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

Result<SharedBlock> SharedBlock::create(const char* name, MemoryBudget* budget) {
    SharedBlock block;
    block.fd_.reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!block.fd_) {
        return Error::from_errno(errno, "make shared memory for a table");
    }
    block.budget_ = budget;
    return block;
}

SharedBlock::~SharedBlock() {
    if (memory_ != nullptr) {
        ::munmap(memory_, size_);
    }
    if (budget_ != nullptr) {
        budget_->release(size_);
    }
}

Result<> SharedBlock::grow(std::size_t bytes) {
    const std::size_t wanted = round_to_pages(bytes);
    if (wanted <= size_) {
        return {};
    }
    const std::size_t more = wanted - size_;
    if (!budget_->reserve(more)) {
        return Error(Errc::kLimit, "the tables of this agent would take more than " +
                                       std::to_string(budget_->limit() >> 20U) +
                                       " MiB: raise table_limit_mib, or receive fewer distinct keys");
    }
    // Allocated now, so that a full system is an error here rather than a signal later.
    if (::fallocate(fd_.get(), 0, static_cast<off_t>(size_), static_cast<off_t>(more)) != 0) {
        const int error = errno;
        budget_->release(more);
        return Error::from_errno(error, "grow a table's shared memory");
    }
    void* const memory = memory_ == nullptr
                             ? ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0)
                             : ::mremap(memory_, size_, wanted, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) {
        const int error = errno;
        budget_->release(more);
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
    return {};
}

Result<std::span<std::byte>> MemfdTableMemory::allocate_slots(std::size_t bytes) {
    auto fresh = SharedBlock::create("ask-table-slots", budget_);
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

Result<std::span<std::byte>> MemfdTableMemory::grow_keys(std::size_t bytes) {
    if (keys_.bytes().empty()) {
        auto fresh = SharedBlock::create("ask-table-keys", budget_);
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

Result<std::shared_ptr<const SealedTable>> MemfdTables::seal(ResultTable table) {
    // Every table of this agent has memory of this kind.
    return static_cast<MemfdTableMemory&>(table.memory()).take_sealed();
}

}  // namespace ask
