// SPDX-License-Identifier: Apache-2.0
#include "lib/client/spool.h"

#include <array>
#include <cstring>

#include "lib/abi/consts.h"

namespace ask::client {
namespace {

constexpr std::size_t kHead = sizeof(std::int64_t) + sizeof(std::uint32_t);

std::size_t record_bytes(std::size_t key) {
    return (kHead + key + 3) / 4 * 4;
}

}  // namespace

struct Spool::Block {
    std::atomic<std::size_t> used{0};
    std::atomic<Block*> next{nullptr};
    std::array<char, kBlock> bytes;
};

static_assert(kHead + ASK_MAX_KEY + 3 <= Spool::kBlock);

Spool::~Spool() {
    for (Block* block = first_.load(); block != nullptr;) {
        Block* const next = block->next.load();
        delete block;
        block = next;
    }
    room_.give_back(bytes_.load());
}

// The block that takes so many bytes more.
Spool::Block* Spool::block_for(std::size_t bytes) {
    if (last_ != nullptr && last_->used.load(std::memory_order_relaxed) + bytes <= kBlock) {
        return last_;
    }
    room_.take(kBlock);
    bytes_.fetch_add(kBlock, std::memory_order_relaxed);
    // Its bytes are written before they are read: no need to touch them all.
    Block* const block = std::make_unique_for_overwrite<Block>().release();
    block->used.store(0, std::memory_order_relaxed);
    block->next.store(nullptr, std::memory_order_relaxed);
    (last_ == nullptr ? first_ : last_->next).store(block, std::memory_order_release);
    last_ = block;
    return block;
}

void Spool::append(const Tuple& tuple) {
    const std::size_t size = record_bytes(tuple.key.size());
    Block* const block = block_for(size);
    const std::size_t used = block->used.load(std::memory_order_relaxed);
    char* const at = &block->bytes[used];
    const auto length = static_cast<std::uint32_t>(tuple.key.size());
    std::memcpy(at, &tuple.value, sizeof(tuple.value));
    std::memcpy(at + sizeof(tuple.value), &length, sizeof(length));
    std::memcpy(at + kHead, tuple.key.data(), tuple.key.size());
    block->used.store(used + size, std::memory_order_release);
    tuples_.fetch_add(1, std::memory_order_relaxed);
}

void Spool::wake() {
    // Ordered with the reader's arm(): it looks for tuples after it has said that it sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleeping_.exchange(false)) {
        event_.notify();
    }
}

void Spool::close() {
    closed_.store(true);
    wake();
}

// Whether there is a tuple at block_ and offset_, which are set to it.
bool Spool::Reader::find() {
    if (block_ == nullptr) {
        block_ = spool_.first_.load(std::memory_order_acquire);
        if (block_ == nullptr) {
            return false;
        }
    }
    // In this order: a block that has a next one gets no more.
    Block* const next = block_->next.load(std::memory_order_acquire);
    if (offset_ < block_->used.load(std::memory_order_acquire)) {
        return true;
    }
    if (next == nullptr) {
        return false;
    }
    block_ = next;
    offset_ = 0;
    return block_->used.load(std::memory_order_acquire) > 0;
}

const std::vector<Tuple>& Spool::Reader::next(std::size_t most) {
    tuples_.clear();
    tuples_.reserve(most);
    while (tuples_.size() < most && find()) {
        const std::size_t used = block_->used.load(std::memory_order_acquire);
        for (; offset_ < used && tuples_.size() < most;) {
            const char* const at = &block_->bytes[offset_];
            std::int64_t value = 0;
            std::uint32_t length = 0;
            std::memcpy(&value, at, sizeof(value));
            std::memcpy(&length, at + sizeof(value), sizeof(length));
            tuples_.emplace_back(std::string_view(at + kHead, length), value);
            offset_ += record_bytes(length);
        }
    }
    return tuples_;
}

bool Spool::Reader::at_end() {
    // In this order: what is closed gets no more.
    const bool closed = spool_.closed_.load();
    return !find() && closed;
}

bool Spool::Reader::arm() {
    spool_.event_.drain();
    spool_.sleeping_.store(true);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (find() || spool_.closed_.load()) {
        spool_.sleeping_.store(false);
        return true;
    }
    return false;
}

}  // namespace ask::client
