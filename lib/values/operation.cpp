// SPDX-License-Identifier: Apache-2.0
#include "lib/values/operation.h"

#include <array>
#include <functional>

namespace ask::values {

namespace {

constexpr std::array<const char*, 4> kKinds{"allreduce", "reduce", "broadcast", "barrier"};
constexpr std::array<const char*, 13> kDtypes{"nothing",  "int32",   "int64", "float32", "float64",
                                              "bfloat16", "float16", "int8",  "uint8",   "int16",
                                              "uint16",   "uint32",  "uint64"};
constexpr std::array<const char*, 8> kOperators{"none", "sum", "prod", "min", "max", "and", "or", "xor"};

template <typename Names, typename T>
std::string name_of(const Names& names, T number) {
    const auto at = static_cast<std::size_t>(number);
    return at < names.size() ? names[at] : "?";
}

bool is_float(Dtype dtype) {
    return dtype == Dtype::kFloat32 || dtype == Dtype::kFloat64 || dtype == Dtype::kBfloat16 ||
           dtype == Dtype::kFloat16;
}

bool reduces(Kind kind) {
    return kind == Kind::kAllReduce || kind == Kind::kReduce;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 29;
}

Result<> check_words(const Operation& operation) {
    const std::string who = describe(operation);
    const bool barrier = operation.kind == Kind::kBarrier;
    if (operation.kind > Kind::kBarrier || operation.width > Width::kQuarter) {
        return Error(Errc::kUnsupported, who + ": no such operation or width");
    }
    if (barrier ? operation.count != 0 : dtype_bytes(operation.dtype) == 0) {
        return Error(Errc::kUnsupported, who + ": no such values");
    }
    if (reduces(operation.kind) != (operation.op >= Operator::kSum && operation.op <= Operator::kXor)) {
        return Error(Errc::kUnsupported, who + ": no such operator here");
    }
    if (operation.op >= Operator::kAnd && is_float(operation.dtype)) {
        return Error(Errc::kUnsupported, who + ": floats have no bit operators");
    }
    return {};
}

Result<> check_width(const Operation& operation, const GroupTerms& terms) {
    if (operation.width == Width::kUsual) {
        return {};
    }
    const std::string who = describe(operation);
    if (!is_float(operation.dtype) || operation.op != Operator::kSum) {
        return Error(Errc::kUnsupported, who + ": a width is for sums of floats");
    }
    if (operation.dtype == Dtype::kFloat64 && operation.width != Width::kWide) {
        return Error(Errc::kUnsupported, who + ": sums of float64 are 64 bits wide");
    }
    if (operation.width == Width::kQuarter && terms.size() > kQuarterMembers) {
        return Error(Errc::kLimit, who + ": sums of 16 bits are for up to " +
                                       std::to_string(kQuarterMembers) + " members, here are " +
                                       std::to_string(terms.size()));
    }
    return {};
}

Result<> check_spans(const Operation& operation) {
    const std::string who = describe(operation);
    constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;
    const std::size_t each = dtype_bytes(operation.dtype);
    if (each != 0 && operation.count > kMaxBytes / each) {
        return Error(Errc::kLimit, who + ": 2^40 bytes are the most");
    }
    const std::size_t bytes = each * operation.count;
    const auto fits = [bytes](std::size_t size) { return size == bytes || size == 0; };
    if (!fits(operation.in.size()) || !fits(operation.out.size())) {
        return Error(Errc::kUsage, who + ": its memory is not " + std::to_string(bytes) + " bytes long");
    }
    const std::byte* in = operation.in.data();
    const std::byte* out = operation.out.data();
    const std::less<> before;
    if (operation.in.empty() || operation.out.empty() || in == out || !before(out, in + bytes) ||
        !before(in, out + bytes)) {
        return {};
    }
    return Error(Errc::kUsage, who + ": what it reads and what it writes overlap in part");
}

}  // namespace

std::size_t dtype_bytes(Dtype dtype) {
    switch (dtype) {
        case Dtype::kInt8:
        case Dtype::kUint8:
            return 1;
        case Dtype::kInt32:
        case Dtype::kUint32:
        case Dtype::kFloat32:
            return 4;
        case Dtype::kInt64:
        case Dtype::kUint64:
        case Dtype::kFloat64:
            return 8;
        case Dtype::kInt16:
        case Dtype::kUint16:
        case Dtype::kBfloat16:
        case Dtype::kFloat16:
            return 2;
        default:
            return 0;
    }
}

std::string describe(const Operation& operation) {
    std::string text = name_of(kKinds, operation.kind) + " " + std::to_string(operation.number);
    if (operation.kind != Kind::kBarrier) {
        text += " of " + std::to_string(operation.count) + " " + name_of(kDtypes, operation.dtype);
    }
    if (reduces(operation.kind)) {
        text += ", " + name_of(kOperators, operation.op);
    }
    return text;
}

Result<> check_operation(const Operation& operation, const GroupTerms& terms) {
    ASK_PASS(check_words(operation));
    ASK_PASS(check_width(operation, terms));
    if (operation.root >= terms.size()) {
        return Error(Errc::kUsage, describe(operation) + ": its root is rank " +
                                       std::to_string(operation.root) + ", and the group has " +
                                       std::to_string(terms.size()) + " members");
    }
    return check_spans(operation);
}

Shape::Shape(const Operation& operation, std::uint32_t members) {
    std::uint64_t hash = 0;
    for (const std::uint64_t word :
         {operation.number, operation.count, std::uint64_t{operation.root}, std::uint64_t{members},
          std::uint64_t{static_cast<std::uint8_t>(operation.width)}}) {
        hash = mix(hash, word);
    }
    word_ = static_cast<std::uint32_t>(operation.kind) << 28 |
            static_cast<std::uint32_t>(operation.dtype) << 24 |
            static_cast<std::uint32_t>(operation.op) << 21 | static_cast<std::uint32_t>(hash >> 43);
}

std::string Shape::text() const {
    std::string text = name_of(kKinds, kind());
    if (kind() != Kind::kBarrier) {
        text += " of " + name_of(kDtypes, dtype());
    }
    if (reduces(kind())) {
        text += ", " + name_of(kOperators, op());
    }
    return text;
}

}  // namespace ask::values
