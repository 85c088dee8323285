// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/ledger.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "tests/support/made_values.h"

namespace ask::sim::groups {

namespace {

using values::Dtype;
using values::Operator;

template <typename T, typename Fold>
void fold_each(std::span<std::byte> sum, std::span<const std::byte> part, Fold fold) {
    for (std::size_t at = 0; at + sizeof(T) <= sum.size(); at += sizeof(T)) {
        T a{};
        T b{};
        std::memcpy(&a, &sum[at], sizeof(T));
        std::memcpy(&b, &part[at], sizeof(T));
        const T folded = fold(a, b);
        std::memcpy(&sum[at], &folded, sizeof(T));
    }
}

void fold_lanes_of(std::uint8_t op, std::span<std::byte> sum, std::span<const std::byte> part) {
    fold_each<std::uint64_t>(sum, part,
                             [op](std::uint64_t a, std::uint64_t b) { return test::fold_words(op, a, b); });
}

// Of integers the low bits, which are the same whatever the sign is.
template <typename T>
T product(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
        return a * b;
    }
}

template <typename T>
void fold_numbers(Operator op, std::span<std::byte> sum, std::span<const std::byte> part) {
    fold_each<T>(sum, part, [op](T a, T b) {
        switch (op) {
            case Operator::kProd:
                return product(a, b);
            case Operator::kMin:
                return b < a ? b : a;
            case Operator::kMax:
                return a < b ? b : a;
            default:
                return static_cast<T>(a + b);
        }
    });
}

// Of values as they are. Sums and products of integers are of unsigned ones, which wrap.
void fold_raw_of(values::Shape shape, std::span<std::byte> sum, std::span<const std::byte> part) {
    const Operator op = shape.op();
    const bool orders = op == Operator::kMin || op == Operator::kMax;
    switch (shape.dtype()) {
        case Dtype::kFloat32:
            return fold_numbers<float>(op, sum, part);
        case Dtype::kFloat64:
            return fold_numbers<double>(op, sum, part);
        case Dtype::kInt64:
            return orders ? fold_numbers<std::int64_t>(op, sum, part)
                          : fold_numbers<std::uint64_t>(op, sum, part);
        case Dtype::kUint64:
            return fold_numbers<std::uint64_t>(op, sum, part);
        case Dtype::kInt16:
            return fold_numbers<std::uint16_t>(op, sum, part);
        case Dtype::kUint8:
            return fold_numbers<std::uint8_t>(op, sum, part);
        default:
            return fold_numbers<std::uint32_t>(op, sum, part);
    }
}

std::string text_of(const values::Front& front) {
    char text[96];
    std::snprintf(text, sizeof(text), "chunk %llu of stream %u, set %llx",
                  static_cast<unsigned long long>(front.seq), front.stream,
                  static_cast<unsigned long long>(front.bits));
    return text;
}

bool alike(const values::Front& a, const values::Front& b) {
    return a.blocks == b.blocks && a.op == b.op && a.shape == b.shape;
}

}  // namespace

std::string Ledger::add(std::uint32_t rank, const values::Front& front, std::span<const std::byte> body) {
    Chunk& chunk = chunks_[{front.stream, front.seq}];
    if (chunk.bodies.empty()) {
        chunk.front = front;
        chunk.bodies.resize(members_);
    }
    if (front.bits != std::uint64_t{1} << rank || !alike(chunk.front, front)) {
        return text_of(front) + ": member " + std::to_string(rank) + " sends another thing than others do";
    }
    auto& own = chunk.bodies[rank];
    if ((chunk.sent & front.bits) == 0) {
        chunk.sent |= front.bits;
        own.assign(body.begin(), body.end());
        return "";
    }
    return std::ranges::equal(own, body)
               ? ""
               : text_of(front) + ": the value of member " + std::to_string(rank) + " changes";
}

const std::vector<std::byte>& Ledger::fold_of(Chunk& chunk, std::uint64_t bits) const {
    auto& fold = chunk.folds[bits];
    if (!fold.empty()) {
        return fold;
    }
    for (std::uint32_t rank = 0; rank < members_; ++rank) {
        if ((bits >> rank & 1U) == 0) {
            continue;
        }
        const auto& own = chunk.bodies[rank];
        if (fold.empty()) {
            fold = own;
        } else if (chunk.front.shape.raw()) {
            fold_raw_of(chunk.front.shape, fold, own);
        } else {
            fold_lanes_of(chunk.front.op, fold, own);
        }
    }
    return fold;
}

std::string Ledger::check(const values::Front& front, std::span<const std::byte> body) {
    const auto found = chunks_.find({front.stream, front.seq});
    if (found == chunks_.end()) {
        return text_of(front) + ": nobody has sent such a chunk";
    }
    Chunk& chunk = found->second;
    if (!alike(chunk.front, front)) {
        return text_of(front) + ": of another shape than its members'";
    }
    if ((front.bits & ~chunk.sent) != 0) {
        return text_of(front) + ": member " + std::to_string(std::countr_zero(front.bits & ~chunk.sent)) +
               " has sent no value";
    }
    const bool several = std::popcount(front.bits) > 1;
    if (front.shape.raw() && several && front.bits != ~std::uint64_t{0} >> (64 - members_)) {
        return text_of(front) + ": raw values were folded before all were there";
    }
    return std::ranges::equal(fold_of(chunk, front.bits), body)
               ? ""
               : text_of(front) + " is not the fold of its members";
}

}  // namespace ask::sim::groups
