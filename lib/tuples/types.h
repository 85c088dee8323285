// SPDX-License-Identifier: Apache-2.0
//
// Vocabulary of the tuples that flows carry.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/engine/types.h"

namespace ask {

enum class Op : std::uint8_t {
#define ASK_OPERATOR(NAME, Name, number, text) k##Name = ASK_OP_##NAME,
#include "lib/abi/operators.def"
};

// Whether there is such an operator: packets and messages may hold any number.
[[nodiscard]] constexpr bool known_op(Op op) {
    switch (op) {
#define ASK_OPERATOR(NAME, Name, number, text) case Op::k##Name:
#include "lib/abi/operators.def"
        return true;
    }
    return false;
}

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

struct SlotMap;  // lib/tuples/slot_map.h

// A flow of tuples: what its sender, its receiver and the switch agreed on.
struct FlowParams : FlowTerms {
    Op op = Op::kSum;
    Geometry geometry;
    std::shared_ptr<const SlotMap> slot_map{};  // the sender's alone; null: by hash
};

// A task's region at one switch, and none that is made anew under the task's instance.
struct RegionId {
    std::uint64_t instance = 0;
    std::uint64_t nonce = 0;
    bool operator==(const RegionId&) const = default;
};

// As packets say it.
[[nodiscard]] constexpr Format format_of(const Geometry& geometry, Op op) {
    return {.short_slots = geometry.short_slots,
            .groups = geometry.groups,
            .m = geometry.m,
            .op = static_cast<std::uint8_t>(op)};
}
// Without rows, which are each packet's own.
[[nodiscard]] constexpr Geometry geometry_of(Format format) {
    return {.short_slots = format.short_slots, .groups = format.groups, .m = format.m, .rows = 0};
}
[[nodiscard]] constexpr Op op_of(Format format) {
    return static_cast<Op>(format.op);
}

}  // namespace ask
