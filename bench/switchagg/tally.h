// SPDX-License-Identifier: Apache-2.0
//
// A receiver that keeps no table, so that as many pairs as a switch can take may be counted: what was sent
// and what came, from packets and from the switch, must have the same sums. Two numbers that differ in one
// pair agree by chance once in 2^64.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "lib/engine/packet_sink.h"
#include "lib/tuples/types.h"

namespace ask::bench {

class Tally {
 public:
    void add(std::string_view key, std::int64_t value);
    [[nodiscard]] std::uint64_t values() const { return values_; }
    bool operator==(const Tally&) const = default;

 private:
    std::uint64_t values_ = 0;
    std::uint64_t weighed_ = 0;  // by a hash of the key
};

// Who wants to see each pair, too.
using PairTaker = std::function<void(std::string_view key, std::int64_t value)>;

// Takes DATA and VAR, for they are all that the bench sends.
class TallySink final : public PacketSink {
 public:
    TallySink(const Geometry& geometry, Tally& tally, PairTaker taker)
        : geometry_(geometry), tally_(tally), taker_(std::move(taker)) {}

    [[nodiscard]] BodyTerms terms() const override {
        return {.format = format_of(geometry_, Op::kSum), .rows = geometry_.rows};
    }
    Intake take(const FlowTerms& flow, const PacketView& packet) override;

 private:
    // How many tuples; -1: a slot is not as a sender writes it.
    int take_row(const std::byte* row, std::uint32_t bitmap);
    Intake take_data(const PacketView& packet);
    Intake take_var(const PacketView& packet);
    void add(std::string_view key, std::int64_t value);

    Geometry geometry_;
    Tally& tally_;
    PairTaker taker_;
};

}  // namespace ask::bench
