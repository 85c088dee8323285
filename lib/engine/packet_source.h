// SPDX-License-Identifier: Apache-2.0
//
// What a flow carries, as its sending end sees it: bodies, whatever is in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/engine/types.h"

namespace ask {

// One body, ready for a header.
struct PacketBody {
    std::uint8_t type =
        ASK_DATA;  // or ASK_VAR, if the flow has agreed to it; or ASK_LONG, which no switch answers
    std::uint8_t rows = 0;
    std::array<std::uint32_t, ASK_MAX_ROWS> bitmap{};
    std::size_t bytes = 0;  // written to the caller's buffer
};

// Of one task on one channel. Called once a packet, not once for each thing in it.
class PacketSource {
 public:
    virtual ~PacketSource() = default;

    [[nodiscard]] virtual BodyTerms terms() const = 0;
    [[nodiscard]] virtual bool has_body() const = 0;  // whether next() would return a body
    // Writes the next body into `out`, which has room for a packet's payload without its header and bitmaps.
    virtual std::optional<PacketBody> next(std::span<std::byte> out) = 0;
    // Nothing more is put in: what is held goes out as fast as packets are asked for.
    virtual void finish() = 0;
    [[nodiscard]] virtual bool empty() const = 0;  // finished and nothing held
    // Of the service's kind that were put in, for the FIN to say: the receiving end counts what came.
    [[nodiscard]] virtual std::uint64_t items() const = 0;
    // The packet with this seq is acknowledged, once; `body` is what the answer brought.
    virtual void answered(std::uint64_t seq, std::span<const std::byte> body) = 0;

 protected:
    PacketSource() = default;
    PacketSource(const PacketSource&) = default;
    PacketSource& operator=(const PacketSource&) = default;
    PacketSource(PacketSource&&) = default;
    PacketSource& operator=(PacketSource&&) = default;
};

}  // namespace ask
