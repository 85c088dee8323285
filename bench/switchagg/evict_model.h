// SPDX-License-Identifier: Apache-2.0
//
// SwitchAgg's own rule for its front (section 4.2.4), for comparison: who finds another key in its place
// drives that out, and the pair that was there goes on. A model: the shipped program has no such policy.
#pragma once

#include <cstdint>
#include <vector>

namespace ask::bench {

class EvictModel {
 public:
    explicit EvictModel(std::uint64_t places) : places_(places) {}

    // By a hash of the key, never 0.
    void add(std::uint64_t hash) {
        __extension__ using Product = unsigned __int128;
        std::uint64_t& held = places_[static_cast<std::uint64_t>(Product{hash} * places_.size() >> 64U)];
        left_ += held == hash ? 0U : 1U;
        held = hash;
    }
    // Pairs that have gone on or will when the places are flushed: each that comes in and is not added up.
    [[nodiscard]] std::uint64_t left() const { return left_; }

 private:
    std::vector<std::uint64_t> places_;
    std::uint64_t left_ = 0;
};

}  // namespace ask::bench
