// SPDX-License-Identifier: Apache-2.0
//
// Pieces of a group's arena: first fit, aligned as the agent wants vectors. What is known of them lies
// outside it, where nobody else can write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace ask {

class Arena {
 public:
    explicit Arena(std::span<std::byte> memory);

    // Null: no piece is large enough. Of 0 bytes it gives a piece, too.
    std::byte* allocate(std::size_t bytes);
    // False: nothing was allocated there. Null is fine.
    bool release(const std::byte* memory);
    // Whether the agent can use these bytes where they are: all in one piece, and aligned.
    [[nodiscard]] bool usable(const std::byte* at, std::size_t bytes) const;
    // Whether both lie in one allocated piece.
    [[nodiscard]] bool same_piece(const std::byte* one, const std::byte* other) const;
    [[nodiscard]] std::uint64_t offset(const std::byte* at) const {
        return static_cast<std::uint64_t>(at - memory_.data());
    }
    [[nodiscard]] std::size_t size() const { return memory_.size(); }
    // The largest piece that is free.
    [[nodiscard]] std::size_t largest() const;

 private:
    using Pieces = std::map<std::size_t, std::size_t>;  // by offset: length
    // The allocated piece that an address lies in; end(): none.
    [[nodiscard]] Pieces::const_iterator piece_of(const std::byte* at) const;

    std::span<std::byte> memory_;
    Pieces free_;
    Pieces taken_;
};

}  // namespace ask
