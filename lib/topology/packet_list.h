// SPDX-License-Identifier: Apache-2.0
//
// A list of words as links carry it: in frames of DATA with the slots of a geometry (lib/tuples/packer.h). A
// word has one slot of a row by its hash, so it is the fullest slot that says how many rows a list takes, and
// the others leave part of theirs blank.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/placement/size_model.h"
#include "lib/tuples/types.h"

namespace ask::topology {

class PacketList final : public placement::WordList {
 public:
    explicit PacketList(const Geometry& geometry) : geometry_(geometry) {}

    void clear() override;
    void add(std::string_view word) override;
    // Of all frames, that of the FIN among them.
    [[nodiscard]] double bytes() const override;

 private:
    Geometry geometry_;
    std::array<std::uint64_t, ASK_MAX_SLOTS> words_{};  // by slot
    std::uint64_t record_bytes_ = 0;                    // of words that fit no slot, in VAR
};

}  // namespace ask::topology
