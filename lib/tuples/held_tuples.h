// SPDX-License-Identifier: Apache-2.0
//
// The tuples that a packer holds back: a fixed pool, one FIFO queue per slot and one for
// LONG tuples, and the bytes of keys too long to sit in the tuple. Nothing is allocated per
// tuple.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/tuples/key_hash.h"
#include "lib/tuples/types.h"

namespace ask {

// Bytes of long keys, handed out and given back in the same order.
class KeyRing {
 public:
    static constexpr std::uint32_t kBytes = std::uint32_t{4} << 20;

    [[nodiscard]] bool can_hold(std::uint32_t size) const { return place_for(size) != kNoPlace; }
    // Copies `key` in; needs can_hold(key.size()). Returns where it lies.
    std::uint32_t push(std::string_view key);
    // Gives back the oldest key, which lies at `at`.
    void pop(std::uint32_t at, std::uint32_t size);
    [[nodiscard]] std::string_view view(std::uint32_t at, std::uint32_t size) const {
        return {bytes_.get() + at, size};
    }
    [[nodiscard]] std::uint32_t used() const { return used_; }

 private:
    static constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();
    [[nodiscard]] std::uint32_t place_for(std::uint32_t size) const;

    std::unique_ptr<char[]> bytes_;  // had with the first key
    std::uint32_t head_ = 0;         // oldest byte in use
    std::uint32_t tail_ = 0;         // first free byte; below head_ once wrapped
    std::uint32_t used_ = 0;
};

struct HeldTuple {
    SmallKey key;  // of a longer key: its place in the ring
    std::int64_t value;
    std::uint32_t next;
    std::uint16_t key_len;
};

class HeldTuples {
 public:
    using Index = std::uint32_t;
    static constexpr Index kNone = std::numeric_limits<Index>::max();
    static constexpr std::uint8_t kLongQueue = ASK_MAX_SLOTS;

    explicit HeldTuples(std::uint32_t capacity);

    [[nodiscard]] std::uint32_t size() const { return size_; }
    [[nodiscard]] std::uint32_t capacity() const { return static_cast<std::uint32_t>(pool_.size()); }
    [[nodiscard]] std::uint32_t queued(std::uint8_t queue) const { return queues_[queue].count; }
    // The first tuple of a queue that has one.
    [[nodiscard]] const HeldTuple& front(std::uint8_t queue) const { return pool_[queues_[queue].head]; }
    // Valid until the tuple is popped.
    [[nodiscard]] std::string_view key_of(const HeldTuple& tuple) const {
        return in_ring(tuple) ? ring_.view(static_cast<std::uint32_t>(tuple.key.low), tuple.key_len)
                              : std::string_view(reinterpret_cast<const char*>(&tuple.key), tuple.key_len);
    }
    [[nodiscard]] const KeyRing& ring() const { return ring_; }

    // Adds a tuple to a queue's end; `small` is its key if that is short enough. Needs size() < capacity()
    // and, for a longer key, the last queue and room in the ring.
    void push(std::uint8_t queue, std::string_view key, const SmallKey& small, std::int64_t value);
    // Removes the first tuple of a queue.
    void pop(std::uint8_t queue);

    // Loads what pop() will read of a queue's first tuple.
    void prefetch(std::uint8_t queue) const {
        if (queues_[queue].head != kNone) {
            __builtin_prefetch(&pool_[queues_[queue].head]);
        }
    }

 private:
    struct Queue {
        Index head = kNone;
        Index tail = kNone;
        std::uint32_t count = 0;
    };

    [[nodiscard]] static bool in_ring(const HeldTuple& tuple) { return tuple.key_len > SmallKey::kBytes; }

    std::vector<HeldTuple> pool_;
    std::array<Queue, ASK_MAX_SLOTS + 1> queues_;
    Index free_ = kNone;  // list through HeldTuple::next
    std::uint32_t size_ = 0;
    KeyRing ring_;
};

}  // namespace ask
