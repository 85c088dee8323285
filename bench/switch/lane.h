// SPDX-License-Identifier: Apache-2.0
//
// One CPU's packets: made beforehand, fed in batches, timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/feeder/feeder.h"
#include "bench/switch/bed.h"
#include "bench/switch/frames.h"

namespace ask::bench {

class Lane {
 public:
    // Lane `index` runs on CPU `index`, with channel `index`, by interface idle<index>.
    static Result<Lane> create(const Case& what, const CheckKey& key, unsigned index);

    // Makes the packets of a round; not to be timed.
    void prepare(std::size_t packets);
    // Feeds them on this lane's CPU; ns a packet, feeding included. Blanks the region before each batch, and
    // feeds each batch twice, where the case says so; neither is timed.
    Result<double> run(Bed& bed, Subject subject);

 private:
    Lane(const Case& what, const CheckKey& key, unsigned index, Feeder feeder)
        : load_(what.load), index_(index), maker_(what, key, index), feeder_(std::move(feeder)) {}

    void fill(std::size_t first);

    Load load_;
    unsigned index_;
    FrameMaker maker_;
    Feeder feeder_;
    std::size_t frame_bytes_ = 0;
    std::vector<std::byte> frames_;
};

}  // namespace ask::bench
