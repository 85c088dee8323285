// SPDX-License-Identifier: Apache-2.0
//
// LONG packets at the receiver: whole records, and keys that come in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tuples/types.h"

namespace ask {

struct LongTuple {
    std::string_view key;  // borrowed from the packet
    std::int64_t value = 0;
    [[nodiscard]] std::string_view text() const { return key; }
};

struct LongPiece {
    std::uint16_t piece = 0;
    std::uint16_t pieces = 0;
    std::uint16_t key_len = 0;
    std::uint16_t offset = 0;
    std::int64_t value = 0;
    std::string_view bytes;  // borrowed from the packet
};

// Reads a LONG body of whole records (pieces = 0). False unless every byte of it is as a
// sender writes it; `out` is undefined then.
bool read_records(std::span<const std::byte> body, std::vector<LongTuple>& out);
// Reads a LONG body with a piece; nullopt unless it is as a sender writes it.
std::optional<LongPiece> read_piece(std::span<const std::byte> body);
// pieces > 0 in the LONG header of `body`, which has at least that header.
[[nodiscard]] bool is_piece(std::span<const std::byte> body);

// Keys of one flow of which some pieces are there. All pieces but the last are equally long,
// so each says where it belongs, and all must agree. That a seq comes once is the caller's
// affair. Bounded by what an honest sender can have under way.
class Reassembly {
 public:
    struct Key {
        std::string bytes;
        std::int64_t value = 0;
        std::uint32_t unit = 0;  // bytes of all pieces but the last
        std::uint32_t pieces = 0;
        std::uint32_t missing = 0;
    };

    // Copies a piece into its key, without counting it yet. `first_seq`: of the key's first
    // piece. nullptr if it disagrees with the others or exceeds the bound.
    Key* stage(std::uint64_t first_seq, const LongPiece& piece);
    // Counts a staged piece; each at most once.
    void commit(std::uint64_t first_seq);
    void drop(std::uint64_t first_seq);
    [[nodiscard]] bool empty() const { return keys_.empty(); }

 private:
    std::map<std::uint64_t, Key> keys_;  // by the seq of their first piece
    std::size_t bytes_ = 0;
};

}  // namespace ask
