// SPDX-License-Identifier: Apache-2.0
#include "lib/ask/arena.h"

#include <algorithm>
#include <iterator>

#include "lib/client/group_ring.h"

namespace ask {

Arena::Arena(std::span<std::byte> memory) : memory_(memory), free_{{0, memory.size()}} {}

std::byte* Arena::allocate(std::size_t bytes) {
    if (bytes > memory_.size()) {
        return nullptr;
    }
    const std::size_t wanted =
        (std::max<std::size_t>(bytes, 1) + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
    const auto found =
        std::ranges::find_if(free_, [wanted](const auto& piece) { return piece.second >= wanted; });
    if (found == free_.end()) {
        return nullptr;
    }
    const auto [at, length] = *found;
    free_.erase(found);
    if (length > wanted) {
        free_.emplace(at + wanted, length - wanted);
    }
    taken_.emplace(at, wanted);
    return memory_.data() + at;
}

bool Arena::release(const std::byte* memory) {
    if (memory == nullptr) {
        return true;
    }
    const auto found = piece_of(memory);
    if (found == taken_.end() || memory_.data() + found->first != memory) {
        return false;
    }
    auto [at, length] = *found;
    taken_.erase(found);
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + length) {
        length += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == at) {
        std::prev(next)->second += length;
    } else {
        free_.emplace(at, length);
    }
    return true;
}

bool Arena::usable(const std::byte* at, std::size_t bytes) const {
    const auto found = piece_of(at);
    return found != taken_.end() && offset(at) % kGroupAlignment == 0 &&
           bytes <= found->first + found->second - offset(at);
}

bool Arena::same_piece(const std::byte* one, const std::byte* other) const {
    const auto found = piece_of(one);
    return found != taken_.end() && found == piece_of(other);
}

std::size_t Arena::largest() const {
    std::size_t most = 0;
    for (const auto& [at, length] : free_) {
        most = std::max(most, length);
    }
    return most;
}

Arena::Pieces::const_iterator Arena::piece_of(const std::byte* at) const {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data());
    if (address < start || address - start >= memory_.size()) {
        return taken_.end();
    }
    const auto after = taken_.upper_bound(address - start);
    if (after == taken_.begin()) {
        return taken_.end();
    }
    const auto piece = std::prev(after);
    return address - start < piece->first + piece->second ? piece : taken_.end();
}

}  // namespace ask
