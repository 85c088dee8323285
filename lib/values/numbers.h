// SPDX-License-Identifier: Apache-2.0
//
// Values as lanes that switches fold, and back. Lanes are integers, so that a sum is the same bit by bit in
// any order. Floats are scaled by a power of two that all members agree on, chunk by chunk (2^e is greater
// than any member's value there; L = ceil log2 of the members):
//
//   integers of 64, 32   ADD64, ADD32                    exact mod 2^64, 2^32
//   of 16, 8             twice as wide, ADD32, ADD64     exact mod 2^16, 2^8
//   float, wide          ADD64, scale 2^(62 - L - e)     error at most N 2^(L - 62) of the chunk's largest
//   float, pair          two sums in an ADD64, 2^(30 - L - e)           N 2^(L - 30)
//   float, quarter       four sums in an ADD64, 2^(14 - L - e)          N 2^(L - 14)
//   MIN, MAX             MIN32, MAX32 of ordered int32   exact; those of 64 bits raw
//   AND, OR, XOR         bits
//   PROD                 raw
//
// each plus one rounding to the dtype, quarter excepted whose lanes are all it has. A chunk with NaN or Inf,
// or with values so far apart that the smallest would keep too few bits, travels raw: as it is, folded by the
// collector in the order of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "lib/values/operation.h"

namespace ask::values {

enum class Way : std::uint8_t { kCopy, kWidened, kOrdered, kWide, kPair, kQuarter, kRaw };

// Of an operation, equal at all members.
struct Layout {
    Way way = Way::kCopy;
    Dtype dtype = Dtype::kNone;
    std::uint8_t lane_op = ASK_VALUES_OR64;
    std::uint8_t log_members = 0;  // L
    std::uint64_t count = 0;
    std::uint32_t value_bytes = 1;  // on the wire; a raw value has the dtype's
    std::uint32_t values_a_chunk = 1;
    std::uint64_t chunks = 0;
    std::uint64_t exponent_chunks = 0;  // 0: needs none
    std::uint32_t chunks_an_exponent_chunk = 0;

    [[nodiscard]] std::uint64_t first_value(std::uint64_t chunk) const { return chunk * values_a_chunk; }
    [[nodiscard]] std::uint32_t values_of(std::uint64_t chunk) const;
    [[nodiscard]] std::uint8_t blocks_of(std::uint64_t chunk, bool raw) const;
    [[nodiscard]] std::uint8_t blocks_of_exponents(std::uint64_t chunk) const;
};

// `operation` is one that check_operation() accepts.
[[nodiscard]] Layout lay_out(const Operation& operation, const GroupTerms& terms);

// Of a chunk, over all members: lanes of the exponents' stream, folded by MAX32.
struct Exponents {
    static constexpr std::int32_t kRaw = std::numeric_limits<std::int32_t>::max();   // NaN or Inf
    static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::min();  // all are 0
    std::int32_t largest = kNone;
    std::int32_t minus_smallest = kNone;  // of those that are not 0
};

// What a chunk's values are multiplied by: 2^(bits of the way - L - e).
struct Scale {
    bool raw = false;
    std::int32_t e = 0;
    bool operator==(const Scale&) const = default;
};

[[nodiscard]] Exponents exponents_of(const Layout& layout, std::span<const std::byte> values);
// What all members conclude, each by itself.
[[nodiscard]] Scale scale_of(const Layout& layout, Exponents agreed);

// Writes a chunk's values (dtype's, of `in`) as lanes of `out`, whole blocks, 0 behind the last. False: a
// value is beyond the scale, which happens only if it changed after its exponent was agreed.
[[nodiscard]] bool encode(const Layout& layout, Scale scale, std::span<const std::byte> in,
                          std::span<std::byte> out);
// The way back: fills `out` with a chunk's values.
void decode(const Layout& layout, Scale scale, std::span<const std::byte> in, std::span<std::byte> out);

// Folds `part` into `sum`, both of the same whole blocks, as a switch does.
void fold(std::uint8_t lane_op, std::span<std::byte> sum, std::span<const std::byte> part);
// The same of raw values. False: no such dtype or operator.
[[nodiscard]] bool fold_raw(Dtype dtype, Operator op, std::span<std::byte> sum,
                            std::span<const std::byte> part);

}  // namespace ask::values
