// SPDX-License-Identifier: Apache-2.0
//
// What each member said its value of a chunk is, and what is a fold of which of them: lanes and operators
// once more, so that neither the switch's program nor lib/values is asked.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/values/packet.h"

namespace ask::sim::groups {

class Ledger {
 public:
    explicit Ledger(std::uint32_t members) : members_(members) {}

    // A member sends this as its value. What is wrong with it, or "".
    [[nodiscard]] std::string add(std::uint32_t rank, const values::Front& front,
                                  std::span<const std::byte> body);
    // Whether this is what the set's members sent: what is wrong, or "". Of front: stream, seq, blocks, op,
    // bits and shape.
    [[nodiscard]] std::string check(const values::Front& front, std::span<const std::byte> body);

 private:
    struct Chunk {
        values::Front front;  // its first
        std::uint64_t sent = 0;
        std::vector<std::vector<std::byte>> bodies;
        std::map<std::uint64_t, std::vector<std::byte>> folds;  // by set, as asked for
    };

    [[nodiscard]] const std::vector<std::byte>& fold_of(Chunk& chunk, std::uint64_t bits) const;

    std::uint32_t members_;
    std::map<std::pair<std::uint32_t, std::uint64_t>, Chunk> chunks_;  // by stream and seq
};

}  // namespace ask::sim::groups
