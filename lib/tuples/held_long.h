// SPDX-License-Identifier: Apache-2.0
//
// The LONG tuples that a packer holds back, first in, first out, and the bytes of their keys. Nothing is
// allocated per tuple.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/tuples/types.h"

namespace ask {

// Bytes of keys, handed out and given back in the same order.
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
    std::int64_t value;
    std::uint32_t place;  // of its key in the ring
    std::uint16_t key_len;
};

class HeldLong {
 public:
    explicit HeldLong(std::uint32_t capacity) : capacity_(capacity) {}

    [[nodiscard]] std::uint32_t size() const { return size_; }
    // Whether the longest key there is would find room.
    [[nodiscard]] bool has_room() const { return has_room_; }
    [[nodiscard]] std::uint32_t key_bytes() const { return ring_.used(); }
    // The first tuple, if there is one.
    [[nodiscard]] const HeldTuple& front() const { return tuples_[first_]; }
    // Valid until the tuple is popped.
    [[nodiscard]] std::string_view key_of(const HeldTuple& tuple) const {
        return ring_.view(tuple.place, tuple.key_len);
    }

    // Needs has_room() and size() < capacity; key.size() <= ASK_MAX_KEY.
    void push(std::string_view key, std::int64_t value);
    // Removes the first tuple.
    void pop();

 private:
    std::uint32_t capacity_;
    std::vector<HeldTuple> tuples_;  // a ring of `capacity_`, had with the first tuple
    std::uint32_t first_ = 0;
    std::uint32_t size_ = 0;
    bool has_room_ = true;
    KeyRing ring_;
};

}  // namespace ask
