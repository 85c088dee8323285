// SPDX-License-Identifier: Apache-2.0
#include "lib/core/held_tuples.h"

#include <algorithm>
#include <bit>

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

HeldTuples::HeldTuples(std::uint32_t capacity, bool with_index) : pool_(capacity) {
    for (Index i = 0; i < capacity; ++i) {
        pool_[i].next = i + 1 < capacity ? i + 1 : kNone;
    }
    free_ = capacity > 0 ? 0 : kNone;
    if (with_index) {
        places_.resize(std::bit_ceil(std::size_t{2} * capacity));
        mask_ = static_cast<std::uint32_t>(places_.size() - 1);
    }
}

HeldTuples::Index HeldTuples::find(std::uint32_t hash, std::string_view key, const SmallKey& small) const {
    if (places_.empty()) {
        return kNone;
    }
    for (std::uint32_t i = hash & mask_; places_[i] != 0; i = (i + 1) & mask_) {
        if (places_[i] >> 32 != hash) {
            continue;
        }
        const auto index = static_cast<Index>(places_[i]) - 1;
        const HeldTuple& tuple = pool_[index];
        if (tuple.key_len == key.size() && (in_ring(tuple) ? key_of(tuple) == key : tuple.key == small)) {
            return index;
        }
    }
    return kNone;
}

void HeldTuples::push(std::uint8_t queue, std::uint32_t hash, std::string_view key, const SmallKey& small,
                      std::int64_t value, Index older) {
    if (older != kNone) {
        index_erase(hash, older);
        pool_[older].indexed = false;
    }
    const Index index = free_;
    HeldTuple& tuple = pool_[index];
    free_ = tuple.next;
    ++size_;
    tuple.value = value;
    tuple.hash = hash;
    tuple.key_len = static_cast<std::uint16_t>(key.size());
    tuple.hot = false;
    tuple.indexed = !places_.empty();
    tuple.key = in_ring(tuple) ? SmallKey{.low = ring_.push(key), .high = 0} : small;
    link(index, queue);
    if (tuple.indexed) {
        index_insert(hash, index);
    }
}

void HeldTuples::pop(std::uint8_t queue) {
    const Index index = queues_[queue].head;
    HeldTuple& tuple = pool_[index];
    if (tuple.indexed) {
        index_erase(tuple.hash, index);
    }
    if (in_ring(tuple)) {
        ring_.pop(static_cast<std::uint32_t>(tuple.key.low), tuple.key_len);
    }
    unlink(index);
    tuple.next = free_;
    free_ = index;
    --size_;
}

void HeldTuples::index_insert(std::uint32_t hash, Index index) {
    std::uint32_t i = hash & mask_;
    while (places_[i] != 0) {
        i = (i + 1) & mask_;
    }
    places_[i] = Place{hash} << 32 | (index + 1);
}

void HeldTuples::index_erase(std::uint32_t hash, Index index) {
    const Place gone = Place{hash} << 32 | (index + 1);
    std::uint32_t hole = hash & mask_;
    while (places_[hole] != gone) {
        hole = (hole + 1) & mask_;
    }
    // Whoever could stand in the hole moves up, so that no search stops short and no
    // gravestones gather.
    for (std::uint32_t i = (hole + 1) & mask_; places_[i] != 0; i = (i + 1) & mask_) {
        const auto home = static_cast<std::uint32_t>(places_[i] >> 32) & mask_;
        if (((i - home) & mask_) >= ((i - hole) & mask_)) {
            places_[hole] = places_[i];
            hole = i;
        }
    }
    places_[hole] = 0;
}

}  // namespace ask
