// SPDX-License-Identifier: Apache-2.0
//
// An operation of a group, and how its values lie in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/values/terms.h"

namespace ask::values {

enum class Kind : std::uint8_t { kAllReduce = 0, kReduce = 1, kBroadcast = 2, kBarrier = 3 };

enum class Dtype : std::uint8_t {
    kNone = 0,  // of a barrier, and of exponents
    kInt32 = 1,
    kInt64 = 2,
    kFloat32 = 3,
    kFloat64 = 4,
    kBfloat16 = 5,
    kFloat16 = 6,
    kInt8 = 7,
    kUint8 = 8,
    kInt16 = 9,
    kUint16 = 10,
    kUint32 = 11,
    kUint64 = 12,
};

enum class Operator : std::uint8_t {
    kNone = 0,  // of a barrier or broadcast
    kSum = 1,
    kProd = 2,
    kMin = 3,
    kMax = 4,
    kAnd = 5,
    kOr = 6,
    kXor = 7,
};

// How many bits a float's sum is kept in on its way. Less is faster and less exact: numbers.h has the bounds.
enum class Width : std::uint8_t {
    kUsual = 0,    // kWide of float32 and float64, kPair of bf16 and fp16
    kWide = 1,     // 64
    kPair = 2,     // 32
    kQuarter = 3,  // 16; up to 16 members
};

// Of a group whose sums may be kQuarter: 4 bits of them are the sum's.
inline constexpr std::uint32_t kQuarterMembers = 16;

struct Operation {
    std::uint64_t number = 0;  // from 1, counted on across instances of a group
    Kind kind = Kind::kAllReduce;
    Dtype dtype = Dtype::kNone;
    Operator op = Operator::kNone;
    Width width = Width::kUsual;
    std::uint32_t root = 0;  // of a reduce or broadcast
    std::uint64_t count = 0;
    // Both stay until its completion; `in` must not change until then. A broadcast's members but its root
    // read nothing, a reduce's but its root write nothing. They are the same or lie apart.
    std::span<const std::byte> in{};
    std::span<std::byte> out{};
};

[[nodiscard]] std::size_t dtype_bytes(Dtype dtype);

// "allreduce 7 of 1000 float32, sum"
[[nodiscard]] std::string describe(const Operation& operation);

// Whether the group can run it: the error names what is not supported, and the limit.
Result<> check_operation(const Operation& operation, const GroupTerms& terms);

// What members must have in common for a chunk (ask_values_ext.shape): kind, dtype and operator as they are,
// and a hash of the rest.
class Shape {
 public:
    enum class Part : std::uint8_t { kValues = 0, kExponents = 1, kRaw = 2 };

    Shape() = default;
    explicit constexpr Shape(std::uint32_t word) : word_(word) {}
    Shape(const Operation& operation, std::uint32_t members);

    [[nodiscard]] Shape of(Part part) const {
        return Shape((word_ & ~kPartMask) | static_cast<std::uint32_t>(part) << kPartShift);
    }
    [[nodiscard]] constexpr std::uint32_t word() const { return word_; }
    [[nodiscard]] Part part() const { return static_cast<Part>(word_ >> kPartShift); }
    [[nodiscard]] bool raw() const { return part() == Part::kRaw; }
    [[nodiscard]] Kind kind() const { return static_cast<Kind>(word_ >> 28 & 3U); }
    [[nodiscard]] Dtype dtype() const { return static_cast<Dtype>(word_ >> 24 & 15U); }
    [[nodiscard]] Operator op() const { return static_cast<Operator>(word_ >> 21 & 7U); }
    // "allreduce of float32, sum"
    [[nodiscard]] std::string text() const;
    bool operator==(const Shape&) const = default;

 private:
    static constexpr unsigned kPartShift = 30;
    static constexpr std::uint32_t kPartMask = 3U << kPartShift;
    std::uint32_t word_ = 0;
};

}  // namespace ask::values
