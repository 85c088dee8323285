// SPDX-License-Identifier: Apache-2.0
//
// The short and medium tuples that a packer holds back: one FIFO queue per slot, of slots as they will stand
// in packets. A queue is a chain of chunks, so that what is written and read one after the other lies so;
// chunks come back in the order that keeps the last used ones in use. Nothing is allocated per tuple.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/tuples/types.h"

namespace ask {

class HeldSlots {
 public:
    // Room for `capacity` tuples, however they fall into slots. The geometry must be valid.
    HeldSlots(const Geometry& geometry, std::uint32_t capacity);

    [[nodiscard]] std::uint32_t size() const { return size_; }
    [[nodiscard]] std::uint32_t queued(unsigned slot) const { return queues_[slot].count; }

    // Adds a tuple at the end of a slot's queue; returns where its ask_slots are to be written, all of them.
    // Needs size() < capacity.
    [[nodiscard]] std::byte* push(unsigned slot) {
        Queue& queue = queues_[slot];
        if (queue.tail_at == queue.end) {
            extend(queue);
        }
        std::uint64_t* const place = words_.get() + std::size_t{queue.tail} * kChunk + queue.tail_at;
        queue.tail_at += queue.aas;
        ++queue.count;
        ++size_;
        return reinterpret_cast<std::byte*>(place);
    }
    // Moves the first `count` tuples of a slot, which must be there, to `out` and to every `stride` bytes
    // behind it.
    void take(unsigned slot, std::uint32_t count, std::byte* out, std::size_t stride);

 private:
    // Words of a chunk: four lines of the cache.
    static constexpr std::uint32_t kChunk = 32;
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    // With tuples it has chunks: the first is read, the last written. Without, it has none.
    struct Queue {
        std::uint32_t count = 0;
        std::uint32_t head = 0;  // chunks
        std::uint32_t tail = 0;
        std::uint16_t head_at = 0;  // words within them
        std::uint16_t tail_at = 0;
        std::uint16_t end = 0;  // where a chunk has no room for another tuple
        std::uint16_t aas = 0;  // words of a tuple
    };

    void extend(Queue& queue);
    void free_head(Queue& queue);
    template <unsigned kAas>
    void take_words(Queue& queue, std::uint32_t count, std::byte* out, std::size_t stride);

    std::array<Queue, ASK_MAX_SLOTS> queues_;
    std::unique_ptr<std::uint64_t[]> words_;  // pages never used are never touched
    std::vector<std::uint32_t> next_;         // by chunk that has been used: the one behind it
    std::uint32_t free_ = kNone;              // list through next_
    std::uint32_t size_ = 0;
};

}  // namespace ask
