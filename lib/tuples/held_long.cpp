// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/held_long.h"

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

void HeldLong::push(std::string_view key, std::int64_t value) {
    if (tuples_.empty()) {
        tuples_.resize(capacity_);
    }
    const std::uint64_t at = std::uint64_t{first_} + size_;
    tuples_[at < capacity_ ? at : at - capacity_] = {
        .value = value, .place = ring_.push(key), .key_len = static_cast<std::uint16_t>(key.size())};
    ++size_;
    has_room_ = ring_.can_hold(ASK_MAX_KEY);
}

void HeldLong::pop() {
    const HeldTuple& tuple = front();
    ring_.pop(tuple.place, tuple.key_len);
    first_ = first_ + 1 < capacity_ ? first_ + 1 : 0;
    --size_;
    has_room_ = ring_.can_hold(ASK_MAX_KEY);
}

}  // namespace ask
