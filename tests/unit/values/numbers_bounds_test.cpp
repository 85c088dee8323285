// SPDX-License-Identifier: Apache-2.0
//
// Random vectors against long double and integers of 128 bits: bounds, and the same bits in any order.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include <doctest/doctest.h>

#include "lib/values/numbers.h"
#include "tests/unit/values/numbers_rig.h"

namespace ask::values {
namespace {

constexpr std::size_t kCount = 40;

__extension__ using Int128 = __int128;

template <typename T>
using Vectors = std::vector<std::vector<T>>;

// Magnitudes over `spread` powers of two, and some zeros.
template <typename T>
Vectors<T> some_floats(std::mt19937_64& random, std::size_t members, int spread) {
    Vectors<T> vectors(members, std::vector<T>(kCount));
    const int base = static_cast<int>(random() % 60) - 30;
    for (auto& vector : vectors) {
        for (T& value : vector) {
            const auto mantissa = static_cast<T>(static_cast<std::int64_t>(random())) * T{0x1p-63};
            const int e = base - static_cast<int>(random() % static_cast<unsigned>(spread + 1));
            value = random() % 8 == 0 ? T{-0.0} : static_cast<T>(std::ldexp(mantissa, e));
        }
    }
    return vectors;
}

template <typename T>
long double largest_of(const Vectors<T>& vectors) {
    long double most = 0;
    for (const auto& vector : vectors) {
        for (const T value : vector) {
            most = std::max(most, std::abs(static_cast<long double>(value)));
        }
    }
    return most;
}

template <typename T>
long double exact_sum(const Vectors<T>& vectors, std::size_t at) {
    long double sum = 0;
    for (const auto& vector : vectors) {
        sum += static_cast<long double>(vector[at]);
    }
    return sum;
}

int log_of(std::size_t members) {
    return static_cast<int>(std::bit_width(members - 1));
}

// N 2^(L - bits) of the chunk's largest, and one rounding of the result to `digits` bits.
template <typename T>
void check_bound(const Vectors<T>& vectors, const std::vector<T>& result, int bits, int digits) {
    const std::size_t members = vectors.size();
    const long double bound =
        static_cast<long double>(members) * std::ldexp(1.0L, log_of(members) - bits) * largest_of(vectors);
    for (std::size_t at = 0; at < kCount; ++at) {
        const long double want = exact_sum(vectors, at);
        const long double rounding = std::ldexp(std::abs(want) + bound, -digits);
        REQUIRE(std::abs(static_cast<long double>(result[at]) - want) <= bound + rounding);
    }
}

template <typename T>
void check_sums(Dtype dtype, Width width, int bits, int digits, int spread) {
    std::mt19937_64 random(static_cast<std::uint64_t>(bits) * 31 + static_cast<std::uint64_t>(digits));
    const std::size_t most = width == Width::kQuarter ? 16 : 64;
    for (std::size_t members = 1; members <= most; ++members) {
        CAPTURE(members);
        for (int round = 0; round < 8; ++round) {
            const auto vectors = some_floats<T>(random, members, spread);
            Reduction reduction(dtype, Operator::kSum, width, members, kCount);
            const std::vector<T> result = reduction.reduce(vectors);
            REQUIRE_FALSE(reduction.scale().raw);
            check_bound(vectors, result, bits, digits);
        }
    }
}

// Integers of T: their own arithmetic, step by step.
template <typename T>
T combined(Operator op, T a, T b) {
    using U = std::make_unsigned_t<T>;
    const std::uint64_t x = static_cast<U>(a);
    const std::uint64_t y = static_cast<U>(b);
    switch (op) {
        case Operator::kSum:
            return static_cast<T>(x + y);
        case Operator::kProd:
            return static_cast<T>(x * y);
        case Operator::kMin:
            return b < a ? b : a;
        case Operator::kMax:
            return a < b ? b : a;
        case Operator::kAnd:
            return static_cast<T>(x & y);
        case Operator::kOr:
            return static_cast<T>(x | y);
        default:
            return static_cast<T>(x ^ y);
    }
}

template <typename T>
T any_integer(std::mt19937_64& random) {
    constexpr T kLeast = std::numeric_limits<T>::min();
    constexpr T kMost = std::numeric_limits<T>::max();
    const std::uint64_t which = random();
    return std::array{kLeast, kMost, static_cast<T>(-1), static_cast<T>(random())}[which % 4];
}

template <typename T>
void check_integers(Dtype dtype) {
    constexpr std::array kAll{Operator::kSum, Operator::kProd, Operator::kMin, Operator::kMax,
                              Operator::kAnd, Operator::kOr,   Operator::kXor};
    std::mt19937_64 random(static_cast<std::uint64_t>(dtype));
    REQUIRE(dtype_bytes(dtype) == sizeof(T));
    for (std::size_t members = 1; members <= 64; ++members) {
        for (const Operator op : kAll) {
            CAPTURE(members);
            CAPTURE(static_cast<int>(op));
            Vectors<T> vectors(members, std::vector<T>(kCount));
            for (auto& vector : vectors) {
                std::ranges::generate(vector, [&] { return any_integer<T>(random); });
                vector[0] = std::numeric_limits<T>::max();  // of all members
                vector[1] = std::numeric_limits<T>::min();
            }
            std::vector<T> want = vectors[0];
            for (std::size_t rank = 1; rank < members; ++rank) {
                for (std::size_t at = 0; at < kCount; ++at) {
                    want[at] = combined(op, want[at], vectors[rank][at]);
                }
            }
            Reduction reduction(dtype, op, Width::kUsual, members, kCount);
            REQUIRE(reduction.reduce(vectors) == want);
            std::vector<std::size_t> order(members);
            std::iota(order.begin(), order.end(), 0);
            std::ranges::shuffle(order, random);
            REQUIRE(reduction.decoded<T>(reduction.folded(vectors, order)) == want);
        }
    }
}

}  // namespace

TEST_CASE("float sums keep their bounds for 1 to 64 members") {
    check_sums<double>(Dtype::kFloat64, Width::kWide, 62, 53, 8);
    check_sums<float>(Dtype::kFloat32, Width::kWide, 62, 24, 8);
    check_sums<float>(Dtype::kFloat32, Width::kPair, 30, 24, 8);
    check_sums<float>(Dtype::kFloat32, Width::kQuarter, 14, 24, 8);
}

TEST_CASE("wide sums of float32 are the exact sum, rounded once, or raw") {
    std::mt19937_64 random(5);
    int raw = 0;
    int scaled = 0;
    for (std::size_t members = 1; members <= 64; ++members) {
        for (int spread = 0; spread <= 40; spread += 4) {
            const auto vectors = some_floats<float>(random, members, spread);
            Reduction reduction(Dtype::kFloat32, Operator::kSum, Width::kUsual, members, kCount);
            const std::vector<float> result = reduction.reduce(vectors);
            ++(reduction.scale().raw ? raw : scaled);
            for (std::size_t at = 0; at < kCount && !reduction.scale().raw; ++at) {
                REQUIRE(result[at] == static_cast<float>(exact_sum(vectors, at)));
            }
        }
    }
    CHECK(raw > 50);
    CHECK(scaled > 200);
}

TEST_CASE("16-bit floats are sums rounded to them") {
    std::mt19937_64 random(6);
    for (std::size_t members = 1; members <= 64; ++members) {
        const auto values = some_floats<float>(random, members, 2);
        Vectors<std::uint16_t> vectors(members);
        Vectors<float> rounded(members);
        for (std::size_t rank = 0; rank < members; ++rank) {
            for (const float value : values[rank]) {
                const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0xffff0000U;
                vectors[rank].push_back(static_cast<std::uint16_t>(bits >> 16));
                rounded[rank].push_back(std::bit_cast<float>(bits));
            }
        }
        for (const Width width : {Width::kUsual, Width::kWide, Width::kQuarter}) {
            if (width == Width::kQuarter && members > 16) {
                continue;
            }
            Reduction reduction(Dtype::kBfloat16, Operator::kSum, width, members, kCount);
            std::vector<float> result;
            for (const std::uint16_t bits : reduction.reduce(vectors)) {
                result.push_back(std::bit_cast<float>(std::uint32_t{bits} << 16));
            }
            if (!reduction.scale().raw) {
                check_bound(rounded, result, width == Width::kQuarter ? 14 : 30, 8);
            }
        }
    }
}

TEST_CASE("sums of fp16 keep the bound of pairs, for 1 to 64 members") {
    std::mt19937_64 random(8);
    int scaled = 0;
    for (std::size_t members = 1; members <= 64; ++members) {
        Vectors<std::uint16_t> vectors(members);
        Vectors<float> floats(members);
        for (std::size_t rank = 0; rank < members; ++rank) {
            for (std::size_t at = 0; at < kCount; ++at) {
                const auto half = static_cast<_Float16>(static_cast<int>(random() % 4096) - 2048) / 64;
                vectors[rank].push_back(std::bit_cast<std::uint16_t>(static_cast<_Float16>(half)));
                floats[rank].push_back(static_cast<float>(half));
            }
        }
        Reduction reduction(Dtype::kFloat16, Operator::kSum, Width::kUsual, members, kCount);
        std::vector<float> result;
        for (const std::uint16_t bits : reduction.reduce(vectors)) {
            result.push_back(static_cast<float>(std::bit_cast<_Float16>(bits)));
        }
        if (!reduction.scale().raw) {
            ++scaled;
            check_bound(floats, result, 30, 11);
        }
    }
    CHECK(scaled == 64);
}

TEST_CASE("sums of integers are exact mod 2^32 and 2^64") {
    std::mt19937_64 random(9);
    for (std::size_t members = 1; members <= 64; ++members) {
        Vectors<std::int32_t> narrow(members);
        Vectors<std::int64_t> wide(members);
        std::vector<Int128> want32(kCount);
        std::vector<Int128> want64(kCount);
        for (std::size_t rank = 0; rank < members; ++rank) {
            for (std::size_t at = 0; at < kCount; ++at) {
                const std::uint64_t any = at % 4 == 0 ? ~std::uint64_t{0} >> 1 : random();
                wide[rank].push_back(static_cast<std::int64_t>(any));
                narrow[rank].push_back(static_cast<std::int32_t>(any >> 32));
                want64[at] += wide[rank][at];
                want32[at] += narrow[rank][at];
            }
        }
        const auto sum32 =
            Reduction(Dtype::kInt32, Operator::kSum, Width::kUsual, members, kCount).reduce(narrow);
        const auto sum64 =
            Reduction(Dtype::kInt64, Operator::kSum, Width::kUsual, members, kCount).reduce(wide);
        for (std::size_t at = 0; at < kCount; ++at) {
            REQUIRE(sum32[at] == static_cast<std::int32_t>(want32[at]));
            REQUIRE(sum64[at] == static_cast<std::int64_t>(want64[at]));
        }
    }
}

TEST_CASE("integers of every size and sign are exact by every operator, in any order, of 1 to 64 members") {
    check_integers<std::int8_t>(Dtype::kInt8);
    check_integers<std::uint8_t>(Dtype::kUint8);
    check_integers<std::int16_t>(Dtype::kInt16);
    check_integers<std::uint16_t>(Dtype::kUint16);
    check_integers<std::int32_t>(Dtype::kInt32);
    check_integers<std::uint32_t>(Dtype::kUint32);
    check_integers<std::int64_t>(Dtype::kInt64);
    check_integers<std::uint64_t>(Dtype::kUint64);
}

TEST_CASE("16-bit floats have extremes, infinities, NaN and zeros without a sign") {
    using Words = std::vector<std::uint16_t>;
    struct Row {
        Dtype dtype;
        std::uint16_t one, two, most, inf, nan, minus, least;
    };
    for (const Row& row : {Row{Dtype::kBfloat16, 0x3f80, 0x4000, 0x7f7f, 0x7f80, 0x7fc0, 0xbf80, 0x0001},
                           Row{Dtype::kFloat16, 0x3c00, 0x4000, 0x7bff, 0x7c00, 0x7e00, 0xbc00, 0x0001}}) {
        CAPTURE(static_cast<int>(row.dtype));
        const auto of = [&row](Operator op, const Words& values) {
            Vectors<std::uint16_t> vectors;
            for (const std::uint16_t value : values) {
                vectors.push_back({value});
            }
            return Reduction(row.dtype, op, Width::kUsual, values.size(), 1).reduce(vectors)[0];
        };
        const auto infinite = static_cast<std::uint16_t>(row.inf);
        const auto minus_infinite = static_cast<std::uint16_t>(row.inf | 0x8000);
        CHECK(of(Operator::kSum, {row.one, row.one}) == row.two);
        CHECK(of(Operator::kSum, {row.one, row.minus}) == 0);
        CHECK(of(Operator::kSum, {0x8000, 0x8000}) == 0);
        CHECK(of(Operator::kSum, {row.least, row.least}) == 2);
        CHECK(of(Operator::kSum, {row.most, row.most}) == infinite);
        CHECK(of(Operator::kSum, {infinite, row.one, row.most}) == infinite);
        CHECK((of(Operator::kSum, {infinite, minus_infinite}) & 0x7fff) > row.inf);
        CHECK((of(Operator::kSum, {row.one, row.nan}) & 0x7fff) > row.inf);
        CHECK((of(Operator::kProd, {row.one, row.nan}) & 0x7fff) > row.inf);
        CHECK(of(Operator::kProd, {row.two, row.one, row.minus}) == (row.two | 0x8000));
        CHECK(of(Operator::kMin, {row.one, minus_infinite, row.least}) == minus_infinite);
        CHECK(of(Operator::kMax, {row.one, infinite, row.most}) == infinite);
        CHECK(of(Operator::kMax, {0x8000, 0x0000}) == 0x0000);
        CHECK(of(Operator::kMin, {0x8000, 0x0000}) == 0x8000);
        CHECK((of(Operator::kMax, {row.nan, infinite}) & 0x7fff) > row.inf);
    }
}

TEST_CASE("a broadcast of bytes is what the root has") {
    const Layout layout =
        lay_out(Operation{.kind = Kind::kBroadcast, .dtype = Dtype::kUint8, .count = 1000}, terms_of(8));
    CHECK(layout.lane_op == ASK_VALUES_OR64);
    CHECK(layout.value_bytes == 1);
}

TEST_CASE("the same bits in any order, and by way of any partials") {
    std::mt19937_64 random(13);
    for (const Width width : {Width::kWide, Width::kPair, Width::kQuarter}) {
        for (std::size_t members = 2; members <= 16; ++members) {
            const auto vectors = some_floats<float>(random, members, 0);
            Reduction reduction(Dtype::kFloat32, Operator::kSum, width, members, kCount);
            reduction.agree(vectors);
            std::vector<std::size_t> order(members);
            std::iota(order.begin(), order.end(), 0);
            const std::vector<std::byte> first = reduction.folded(vectors, order);
            for (int round = 0; round < 20; ++round) {
                std::ranges::shuffle(order, random);
                const std::size_t cut = 1 + random() % (members - 1);
                const std::vector<std::size_t> left(order.begin(), order.begin() + static_cast<long>(cut));
                const std::vector<std::size_t> right(order.begin() + static_cast<long>(cut), order.end());
                std::vector<std::byte> sum = reduction.folded(vectors, right);
                fold(reduction.layout().lane_op, sum, reduction.folded(vectors, left));
                REQUIRE(sum == first);
            }
        }
    }
}

TEST_CASE("lanes full of the largest values do not meet") {
    for (const Width width : {Width::kWide, Width::kPair, Width::kQuarter}) {
        for (const std::size_t members : {2U, 3U, 16U}) {
            Vectors<float> vectors(members, std::vector<float>(kCount));
            for (auto& vector : vectors) {
                for (std::size_t at = 0; at < kCount; ++at) {
                    vector[at] = (at / 2 + at) % 2 == 0 ? 1.0F : -1.0F;
                }
            }
            Reduction reduction(Dtype::kFloat32, Operator::kSum, width, members, kCount);
            const std::vector<float> result = reduction.reduce(vectors);
            for (std::size_t at = 0; at < kCount; ++at) {
                REQUIRE(result[at] == static_cast<float>(members) * vectors[0][at]);
            }
        }
    }
}

}  // namespace ask::values
