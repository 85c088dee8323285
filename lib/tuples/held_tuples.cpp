// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/held_tuples.h"

#include <algorithm>

namespace ask {

std::uint32_t KeyRing::place_for(std::uint32_t size) const {
    if (used_ == 0) {
        return size <= kBytes ? 0 : kNoPlace;
    }
    if (tail_ > head_) {
        if (kBytes - tail_ >= size) {
            return tail_;
        }
        // Strictly less, here and below: tail_ == head_ would look like a ring with nothing in it.
        return size < head_ ? 0 : kNoPlace;
    }
    return size < head_ - tail_ ? tail_ : kNoPlace;
}

std::uint32_t KeyRing::push(std::string_view key) {
    if (!bytes_) {
        bytes_.reset(new char[kBytes]);  // not make_unique: pages never used are never touched
    }
    const auto size = static_cast<std::uint32_t>(key.size());
    const std::uint32_t at = place_for(size);
    if (used_ == 0) {
        head_ = 0;
    }
    std::copy(key.begin(), key.end(), bytes_.get() + at);
    tail_ = at + size;
    used_ += size;
    return at;
}

void KeyRing::pop(std::uint32_t at, std::uint32_t size) {
    head_ = at + size;
    used_ -= size;
}

HeldTuples::HeldTuples(std::uint32_t capacity) : pool_(capacity) {
    for (Index i = 0; i < capacity; ++i) {
        pool_[i].next = i + 1 < capacity ? i + 1 : kNone;
    }
    free_ = capacity > 0 ? 0 : kNone;
}

void HeldTuples::push(std::uint8_t queue, std::string_view key, const SmallKey& small, std::int64_t value) {
    const Index index = free_;
    HeldTuple& tuple = pool_[index];
    free_ = tuple.next;
    ++size_;
    tuple.value = value;
    tuple.key_len = static_cast<std::uint16_t>(key.size());
    tuple.key = in_ring(tuple) ? SmallKey{.low = ring_.push(key), .high = 0} : small;
    tuple.next = kNone;
    Queue& list = queues_[queue];
    (list.tail == kNone ? list.head : pool_[list.tail].next) = index;
    list.tail = index;
    ++list.count;
}

void HeldTuples::pop(std::uint8_t queue) {
    Queue& list = queues_[queue];
    const Index index = list.head;
    HeldTuple& tuple = pool_[index];
    if (in_ring(tuple)) {
        ring_.pop(static_cast<std::uint32_t>(tuple.key.low), tuple.key_len);
    }
    list.head = tuple.next;
    list.tail = list.head == kNone ? kNone : list.tail;
    --list.count;
    tuple.next = free_;
    free_ = index;
    --size_;
}

}  // namespace ask
