// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ask::sim::groups {

namespace {

using values::Dtype;
using values::Kind;
using values::Operation;
using values::Operator;

constexpr std::byte kUntouched{0xa5};

// What an application would write, without a thought of lanes.
template <typename T>
T combine(Operator op, T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        switch (op) {
            case Operator::kMin:
                return std::min(a, b);
            case Operator::kMax:
                return std::max(a, b);
            default:
                return a + b;
        }
    } else {
        const auto x = static_cast<std::uint64_t>(a);
        const auto y = static_cast<std::uint64_t>(b);
        switch (op) {
            case Operator::kProd:
                return static_cast<T>(x * y);
            case Operator::kMin:
                return std::min(a, b);
            case Operator::kMax:
                return std::max(a, b);
            case Operator::kAnd:
                return static_cast<T>(x & y);
            case Operator::kOr:
                return static_cast<T>(x | y);
            case Operator::kXor:
                return static_cast<T>(x ^ y);
            default:
                return static_cast<T>(x + y);
        }
    }
}

// Floats are integers of which a sum is exact in any order.
template <typename T>
T some_value(Random& random, unsigned bits) {
    if constexpr (std::is_floating_point_v<T>) {
        const auto spread = static_cast<std::int64_t>(std::uint64_t{1} << bits);
        return static_cast<T>(
            static_cast<std::int64_t>(random.below(2 * static_cast<std::uint64_t>(spread))) - spread);
    } else {
        return static_cast<T>(random.next());
    }
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

template <typename T>
void give(Work& work, std::uint32_t members, Random& random, bool strange) {
    const Operation& operation = work.operation;
    // Of a float64, few enough to be scaled, or so many that a chunk goes raw.
    const unsigned bits = sizeof(T) == 8 && random.below(2) == 0 ? 45 : 16;
    std::vector<std::vector<T>> given(members, std::vector<T>(operation.count));
    for (auto& values : given) {
        for (T& value : values) {
            value = random.below(8) == 0 ? T{} : some_value<T>(random, bits);
        }
    }
    if constexpr (std::is_floating_point_v<T>) {
        const T odd =
            random.below(2) == 0 ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
        if (strange && operation.count > 0) {
            given[random.below(members)][random.below(operation.count)] = odd;
        }
    }
    std::vector<T> result = operation.kind == Kind::kBroadcast ? given[operation.root] : given[0];
    for (std::uint32_t rank = 1; rank < members && operation.kind != Kind::kBroadcast; ++rank) {
        for (std::size_t i = 0; i < result.size(); ++i) {
            result[i] = combine<T>(operation.op, result[i], given[rank][i]);
        }
    }
    for (const auto& values : given) {
        work.in.push_back(bytes_of(values));
    }
    work.expected = bytes_of(result);
}

void give_any(Work& work, std::uint32_t members, Random& random, bool strange) {
    switch (work.operation.dtype) {
        case Dtype::kInt64:
            return give<std::int64_t>(work, members, random, strange);
        case Dtype::kUint64:
            return give<std::uint64_t>(work, members, random, strange);
        case Dtype::kFloat32:
            return give<float>(work, members, random, strange);
        case Dtype::kFloat64:
            return give<double>(work, members, random, strange);
        case Dtype::kInt16:
            return give<std::int16_t>(work, members, random, strange);
        case Dtype::kUint8:
            return give<std::uint8_t>(work, members, random, strange);
        case Dtype::kUint32:
            return give<std::uint32_t>(work, members, random, strange);
        default:
            return give<std::int32_t>(work, members, random, strange);
    }
}

Dtype draw_dtype(Random& random, bool floats) {
    constexpr Dtype kIntegers[] = {Dtype::kInt32, Dtype::kInt64, Dtype::kUint32,
                                   Dtype::kInt16, Dtype::kUint8, Dtype::kUint64};
    if (floats && random.below(2) == 0) {
        return random.below(2) == 0 ? Dtype::kFloat32 : Dtype::kFloat64;
    }
    return kIntegers[random.below(std::size(kIntegers))];
}

// Those that are not a chunk's end of a reason of their own: products of floats round.
Operator draw_operator(Random& random, Dtype dtype) {
    constexpr Operator kAll[] = {Operator::kSum, Operator::kSum, Operator::kMin, Operator::kMax,
                                 Operator::kAnd, Operator::kOr,  Operator::kXor, Operator::kProd};
    const bool floats = dtype == Dtype::kFloat32 || dtype == Dtype::kFloat64;
    return kAll[random.below(floats ? 4 : std::size(kAll))];
}

}  // namespace

Operation Work::of(std::uint32_t rank) {
    Operation own = operation;
    own.in = in_place[rank] ? std::span<const std::byte>(out[rank]) : std::span<const std::byte>(in[rank]);
    own.out = out[rank];
    return own;
}

std::string Work::judge(std::uint32_t rank) const {
    const bool writes = operation.kind == Kind::kAllReduce ||
                        (operation.kind == Kind::kReduce && rank == operation.root) ||
                        (operation.kind == Kind::kBroadcast && rank != operation.root);
    if (!writes) {
        return "";
    }
    const std::size_t each = std::max<std::size_t>(1, values::dtype_bytes(operation.dtype));
    for (std::size_t at = 0; at < expected.size(); at += each) {
        float small = 0;
        double large = 0;
        std::memcpy(&small, &expected[at], std::min(each, sizeof(small)));
        std::memcpy(&large, &expected[at], std::min(each, sizeof(large)));
        float small_out = 0;
        double large_out = 0;
        std::memcpy(&small_out, &out[rank][at], std::min(each, sizeof(small)));
        std::memcpy(&large_out, &out[rank][at], std::min(each, sizeof(large)));
        const bool nans =
            (operation.dtype == Dtype::kFloat32 && std::isnan(small) && std::isnan(small_out)) ||
            (operation.dtype == Dtype::kFloat64 && std::isnan(large) && std::isnan(large_out));
        if (!nans && std::memcmp(&expected[at], &out[rank][at], each) != 0) {
            return values::describe(operation) + ": member " + std::to_string(rank) +
                   " has a wrong value at " + std::to_string(at / each);
        }
    }
    return "";
}

Work draw_work(const Plan& plan, std::uint64_t number, Random& random) {
    Work work;
    Operation& operation = work.operation;
    operation.number = number;
    const std::uint64_t kind = plan.kind == 0 ? 9 : random.below(10);
    operation.kind = kind == 0   ? Kind::kBarrier
                     : kind == 1 ? Kind::kBroadcast
                     : kind == 2 ? Kind::kReduce
                                 : Kind::kAllReduce;
    operation.root = static_cast<std::uint32_t>(random.below(plan.members));
    const bool strange = plan.kind >= 3 && random.below(4) == 0;
    if (operation.kind != Kind::kBarrier) {
        operation.count = random.below(std::uint64_t{plan.values} + 1);
        operation.dtype = draw_dtype(random, plan.kind >= 2);
    }
    if (operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduce) {
        operation.op = plan.kind == 0 ? Operator::kSum : draw_operator(random, operation.dtype);
        if (strange && operation.op != Operator::kSum &&
            (operation.dtype == Dtype::kFloat32 || operation.dtype == Dtype::kFloat64)) {
            operation.op = Operator::kSum;  // who orders a NaN has rules of his own
        }
    }
    give_any(work, plan.members, random, strange);
    for (std::uint32_t rank = 0; rank < plan.members; ++rank) {
        const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduce;
        work.in_place.push_back(reduces && random.below(4) == 0);
        work.out.push_back(work.in_place[rank] ? work.in[rank]
                                               : std::vector<std::byte>(work.in[rank].size(), kUntouched));
    }
    return work;
}

}  // namespace ask::sim::groups
