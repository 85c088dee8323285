// SPDX-License-Identifier: Apache-2.0
//
// What all members of a group agreed on when it was opened (lib/abi/values.h has the wire).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/abi/values.h"
#include "lib/engine/types.h"

namespace ask::values {

// The largest exponents of an operation's chunks travel on a stream of their own, ahead of the values'.
inline constexpr std::uint32_t kExponentStream = ASK_VALUES_STREAMS - 1;
inline constexpr std::uint32_t kMaxDataStreams = kExponentStream;
inline constexpr std::uint32_t kMaxWindow = 256;
inline constexpr std::size_t kBlock = ASK_VALUES_BLOCK_BYTES;

// A member, by its rank: the channel that its values leave by.
struct Seat {
    ChannelId channel;
    std::uint32_t incarnation = 0;
};

struct GroupTerms {
    std::uint64_t instance = 0;
    CheckSecret secret{};  // of all its flows
    std::vector<Seat> seats;
    std::uint32_t root = 0;  // rank of the member whose agent collects
    std::uint32_t window = kMaxWindow;
    std::uint32_t streams = 1;  // of values
    std::uint32_t blocks = 22;  // most of a payload
    // The collector's results go to all by its switch; else to each alone.
    bool fan_out = false;

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(seats.size()); }
    // The set of all members.
    [[nodiscard]] std::uint64_t all() const { return ~std::uint64_t{0} >> (64 - size()); }
    // Its host's number.
    [[nodiscard]] std::uint32_t collector() const { return seats[root].channel.host; }
    // Whether a stream of this number is in use.
    [[nodiscard]] bool has_stream(std::uint32_t stream) const {
        return stream < streams || stream == kExponentStream;
    }
};

// Whether ends can be made of them; the error names the limit.
Result<> check_terms(const GroupTerms& terms);

}  // namespace ask::values
