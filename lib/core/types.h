// SPDX-License-Identifier: Apache-2.0
//
// Vocabulary of the protocol core. The core does no I/O, reads no clock and starts no
// thread: bytes and time go in, bytes and deadlines come out.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "lib/abi/consts.h"
#include "lib/abi/wire.h"
#include "lib/base/result.h"

namespace ask {

// Monotonic time in nanoseconds, whatever its zero.
using Nanos = std::int64_t;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

// A channel's name on the wire: IPv4 address (host byte order) and UDP port of its host.
struct ChannelId {
    std::uint32_t host = 0;
    std::uint16_t port = 0;
    auto operator<=>(const ChannelId&) const = default;
};

// The switch (and its incarnation) that aggregates a flow; switch_id 0 means none.
struct Mark {
    std::uint16_t switch_id = 0;
    std::uint32_t incarnation = 0;
    auto operator<=>(const Mark&) const = default;
};

enum class Op : std::uint8_t { kSum = ASK_OP_SUM, kMin = ASK_OP_MIN, kMax = ASK_OP_MAX };

// Wide enough that no sum of int64 tuples wraps before the final check.
__extension__ using Wide = __int128;

// Applies `op` to an accumulated and a new value; switch and receiver agree bit for bit.
[[nodiscard]] constexpr Wide apply(Op op, Wide old, Wide value) {
    switch (op) {
        case Op::kMin:
            return value < old ? value : old;
        case Op::kMax:
            return value > old ? value : old;
        case Op::kSum:
            break;
    }
    return old + value;
}

// 128-bit secret of a flow's check, expanded by ask_check_expand().
using CheckSecret = std::array<std::uint64_t, 2>;

// Layout of a packet's rows (ASK section 3.2.3, design section 4).
struct Geometry {
    std::uint8_t short_slots = 16;
    std::uint8_t groups = 8;
    std::uint8_t m = 2;
    std::uint8_t rows = 4;  // most rows of a packet

    auto operator<=>(const Geometry&) const = default;
    [[nodiscard]] constexpr unsigned slots() const { return unsigned{short_slots} + groups; }
    [[nodiscard]] constexpr unsigned aas() const { return unsigned{short_slots} + unsigned{groups} * m; }
    [[nodiscard]] constexpr unsigned row_bytes() const { return aas() * ASK_SLOT_BYTES; }
    // Longest key that travels in a slot, bytes; longer ones travel LONG.
    [[nodiscard]] constexpr unsigned max_slot_key() const {
        return groups > 0 ? unsigned{m} * ASK_KPART_BYTES : ASK_KPART_BYTES;
    }
    // UDP payload of a DATA packet with `n` rows, bytes.
    [[nodiscard]] constexpr unsigned payload_bytes(unsigned n) const {
        return static_cast<unsigned>(sizeof(ask_hdr)) + n * (4U + row_bytes());
    }
};

// Checks a geometry against all limits of lib/abi/consts.h: 1..32 slots, at most 64 AAs,
// m 1..4 (2..4 beside short slots; 0 exactly when there are no groups), rows 1..8, slots x rows <= 128,
// payload <= ASK_MAX_PAYLOAD. The error names the limit.
Result<> validate(const Geometry& geometry);
// Most rows of such a geometry, whatever its own are, in 128 tuples and `payload_limit` bytes of UDP payload;
// 0: none.
[[nodiscard]] unsigned most_rows(const Geometry& geometry, unsigned payload_limit);
// Text form SHORT+GROUPSxM[*ROWS], e.g. "16+8x2*4"; "16" means no groups. Without rows: as
// many as fit 128 tuples and `payload_limit` bytes of UDP payload.
Result<Geometry> parse_geometry(std::string_view text, unsigned payload_limit);
std::string to_string(const Geometry& geometry);

struct SlotMap;  // lib/core/slot_map.h

// What both ends of a flow (a task instance on a channel) agreed on when it was joined.
struct FlowParams {
    std::uint64_t instance = 0;
    ChannelId channel;
    std::uint32_t incarnation = 0;
    CheckSecret secret{};
    Mark mark;
    Op op = Op::kSum;
    Geometry geometry;
    std::uint64_t first_seq = 1;
    std::shared_ptr<const SlotMap> slot_map{};  // the sender's alone; null: by hash
};

struct ChannelIdHash {
    std::size_t operator()(const ChannelId& id) const {
        std::uint64_t x = (std::uint64_t{id.host} << 16) ^ id.port;
        x ^= x >> 33;
        x *= 0xff51afd7ed558ccdULL;
        x ^= x >> 33;
        return x;
    }
};

}  // namespace ask
