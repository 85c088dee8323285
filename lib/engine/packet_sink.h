// SPDX-License-Identifier: Apache-2.0
//
// Where the receiving end puts what flows carry.
#pragma once

#include <cstdint>

#include "lib/engine/packet.h"
#include "lib/engine/types.h"

namespace ask {

// What became of a packet that is in its flow's interval, marked as agreed and new.
struct Intake {
    enum class Result : std::uint8_t {
        kTaken,
        kBad,   // no sender writes such a body
        kFull,  // no room: nothing of it was taken, it may come again
    };
    Result result = Result::kTaken;
    std::uint32_t items = 0;  // of the service's kind that it brought
};

// Of one task. A packet is recorded as seen, and acknowledged, only if it was taken, so a sink takes all of
// it or nothing.
class PacketSink {
 public:
    virtual ~PacketSink() = default;

    [[nodiscard]] virtual BodyTerms terms() const = 0;
    // DATA, LONG or VAR; or FIN, behind which nothing of the flow comes: refused (kBad) if something is
    // missing.
    virtual Intake take(const FlowTerms& flow, const PacketView& packet) = 0;

 protected:
    PacketSink() = default;
    PacketSink(const PacketSink&) = default;
    PacketSink& operator=(const PacketSink&) = default;
    PacketSink(PacketSink&&) = default;
    PacketSink& operator=(PacketSink&&) = default;
};

}  // namespace ask
