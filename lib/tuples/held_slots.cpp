// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/held_slots.h"

#include <algorithm>
#include <cstring>

#include "lib/tuples/key_hash.h"

namespace ask {

HeldSlots::HeldSlots(const Geometry& geometry, std::uint32_t capacity) {
    std::uint32_t fewest = kChunk;  // tuples of a chunk
    for (unsigned slot = 0; slot < geometry.slots(); ++slot) {
        Queue& queue = queues_[slot];
        queue.aas = static_cast<std::uint16_t>(slot_aas(slot, geometry));
        const std::uint32_t tuples = kChunk / queue.aas;
        queue.end = static_cast<std::uint16_t>(tuples * queue.aas);
        queue.head_at = queue.tail_at = queue.end;
        fewest = std::min(fewest, tuples);
    }
    // A queue's first and last chunk may hold one tuple each.
    const std::size_t chunks = capacity / fewest + 2 * std::size_t{geometry.slots()};
    words_ = std::make_unique_for_overwrite<std::uint64_t[]>(chunks * kChunk);
    next_.reserve(chunks);
}

// Gives a queue another chunk to write to.
void HeldSlots::extend(Queue& queue) {
    std::uint32_t chunk = free_;
    if (chunk == kNone) {
        chunk = static_cast<std::uint32_t>(next_.size());
        next_.push_back(kNone);
    } else {
        free_ = next_[chunk];
    }
    if (queue.count == 0) {
        queue.head = chunk;
        queue.head_at = 0;
    } else {
        next_[queue.tail] = chunk;
    }
    queue.tail = chunk;
    queue.tail_at = 0;
}

void HeldSlots::free_head(Queue& queue) {
    const std::uint32_t chunk = queue.head;
    queue.head = next_[chunk];
    next_[chunk] = free_;
    free_ = chunk;
}

template <unsigned kAas>
void HeldSlots::take_words(Queue& queue, std::uint32_t count, std::byte* out, std::size_t stride) {
    constexpr std::size_t kBytes = std::size_t{kAas} * ASK_SLOT_BYTES;
    while (count > 0) {
        if (queue.head_at == queue.end) {
            free_head(queue);
            queue.head_at = 0;
        }
        const std::uint32_t here = std::min(count, (std::uint32_t{queue.end} - queue.head_at) / kAas);
        const std::uint64_t* from = words_.get() + std::size_t{queue.head} * kChunk + queue.head_at;
        for (std::uint32_t i = 0; i < here; ++i) {
            std::memcpy(out, from, kBytes);
            from += kAas;
            out += stride;
        }
        queue.head_at = static_cast<std::uint16_t>(queue.head_at + here * kAas);
        count -= here;
    }
}

void HeldSlots::take(unsigned slot, std::uint32_t count, std::byte* out, std::size_t stride) {
    Queue& queue = queues_[slot];
    switch (queue.aas) {
        case 1:
            take_words<1>(queue, count, out, stride);
            break;
        case 2:
            take_words<2>(queue, count, out, stride);
            break;
        case 3:
            take_words<3>(queue, count, out, stride);
            break;
        default:
            take_words<4>(queue, count, out, stride);
            break;
    }
    size_ -= count;
    queue.count -= count;
    if (queue.count == 0 && count > 0) {
        free_head(queue);
        queue.head_at = queue.tail_at = queue.end;
    }
}

}  // namespace ask
