// SPDX-License-Identifier: Apache-2.0
#include "lib/values/numbers.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

#include "tests/unit/values/numbers_rig.h"

namespace ask::values {
namespace {

template <typename T>
using Vectors = std::vector<std::vector<T>>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One value of each member.
template <typename T>
T reduced(Dtype dtype, Operator op, Width width, const std::vector<T>& values, bool raw) {
    Vectors<T> vectors;
    for (const T value : values) {
        vectors.push_back({value});
    }
    Reduction reduction(dtype, op, width, values.size(), 1);
    const T result = reduction.reduce(vectors)[0];
    CHECK(reduction.scale().raw == raw);
    return result;
}

template <typename T>
T sum_of(std::initializer_list<T> values, bool raw = false) {
    const Dtype dtype = std::is_same_v<T, float> ? Dtype::kFloat32 : Dtype::kFloat64;
    return reduced(dtype, Operator::kSum, Width::kUsual, std::vector<T>(values), raw);
}

Layout layout_for(Dtype dtype, Operator op, Width width = Width::kUsual) {
    return lay_out(Operation{.dtype = dtype, .op = op, .width = width, .count = 1000}, terms_of(8));
}

}  // namespace

TEST_CASE("each dtype and operator has its lanes") {
    struct Row {
        Dtype dtype;
        Operator op;
        Width width;
        std::uint8_t lane_op;
        std::uint32_t bytes;
        bool exponents;
    };
    for (const Row& row : {
             Row{Dtype::kInt32, Operator::kSum, Width::kUsual, ASK_VALUES_ADD32, 4, false},
             Row{Dtype::kInt64, Operator::kSum, Width::kUsual, ASK_VALUES_ADD64, 8, false},
             Row{Dtype::kFloat32, Operator::kSum, Width::kUsual, ASK_VALUES_ADD64, 8, true},
             Row{Dtype::kFloat32, Operator::kSum, Width::kPair, ASK_VALUES_ADD64, 4, true},
             Row{Dtype::kFloat32, Operator::kSum, Width::kQuarter, ASK_VALUES_ADD64, 2, true},
             Row{Dtype::kFloat64, Operator::kSum, Width::kUsual, ASK_VALUES_ADD64, 8, true},
             Row{Dtype::kBfloat16, Operator::kSum, Width::kQuarter, ASK_VALUES_ADD64, 2, true},
             Row{Dtype::kFloat16, Operator::kSum, Width::kWide, ASK_VALUES_ADD64, 8, true},
             Row{Dtype::kInt32, Operator::kMin, Width::kUsual, ASK_VALUES_MIN32, 4, false},
             Row{Dtype::kFloat32, Operator::kMax, Width::kUsual, ASK_VALUES_MAX32, 4, false},
             Row{Dtype::kInt32, Operator::kAnd, Width::kUsual, ASK_VALUES_AND64, 4, false},
             Row{Dtype::kInt64, Operator::kOr, Width::kUsual, ASK_VALUES_OR64, 8, false},
             Row{Dtype::kInt64, Operator::kXor, Width::kUsual, ASK_VALUES_XOR64, 8, false},
             Row{Dtype::kInt8, Operator::kSum, Width::kUsual, ASK_VALUES_ADD64, 2, false},
             Row{Dtype::kUint16, Operator::kSum, Width::kUsual, ASK_VALUES_ADD32, 4, false},
             Row{Dtype::kUint32, Operator::kSum, Width::kUsual, ASK_VALUES_ADD32, 4, false},
             Row{Dtype::kUint64, Operator::kSum, Width::kUsual, ASK_VALUES_ADD64, 8, false},
             Row{Dtype::kUint8, Operator::kMin, Width::kUsual, ASK_VALUES_MIN32, 4, false},
             Row{Dtype::kUint32, Operator::kMax, Width::kUsual, ASK_VALUES_MAX32, 4, false},
             Row{Dtype::kUint16, Operator::kOr, Width::kUsual, ASK_VALUES_OR64, 2, false},
         }) {
        CAPTURE(static_cast<int>(row.dtype));
        CAPTURE(static_cast<int>(row.op));
        const Layout layout = layout_for(row.dtype, row.op, row.width);
        CHECK(layout.lane_op == row.lane_op);
        CHECK(layout.value_bytes == row.bytes);
        CHECK((layout.exponent_chunks != 0) == row.exponents);
        CHECK_FALSE(scale_of(layout, Exponents{.largest = 3, .minus_smallest = -2}).raw);
    }
    for (const Layout& layout :
         {layout_for(Dtype::kFloat32, Operator::kProd), layout_for(Dtype::kInt32, Operator::kProd),
          layout_for(Dtype::kInt64, Operator::kMin), layout_for(Dtype::kFloat64, Operator::kMax)}) {
        CHECK(scale_of(layout, {}).raw);
    }
}

TEST_CASE("a chunk fits its blocks, raw or not") {
    for (const Width width : {Width::kWide, Width::kPair, Width::kQuarter}) {
        for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
            const Layout layout = layout_for(dtype, Operator::kSum, width);
            const std::uint32_t values = layout.values_of(0);
            CHECK(layout.blocks_of(0, false) <= terms_of(8).blocks);
            CHECK(layout.blocks_of(0, true) <= terms_of(8).blocks);
            CHECK(layout.blocks_of(0, false) * std::size_t{64} >= values * layout.value_bytes);
            CHECK(layout.blocks_of(0, true) * std::size_t{64} >= values * dtype_bytes(dtype));
        }
    }
}

TEST_CASE("compressed float32 with a NaN travels whole") {
    Reduction reduction(Dtype::kFloat32, Operator::kSum, Width::kQuarter, 2, 100);
    Vectors<float> vectors(2, std::vector<float>(100, 1.5F));
    vectors[1][7] = kNan;
    const std::vector<float> result = reduction.reduce(vectors);
    CHECK(reduction.scale().raw);
    CHECK(std::isnan(result[7]));
    CHECK(result[99] == 3.0F);
}

TEST_CASE("NaN and Inf make a chunk raw, whoever has them") {
    CHECK(std::isnan(sum_of({1.0F, kNan, 2.0F}, true)));
    CHECK(sum_of({1.0F, 2.0F, kInf}, true) == kInf);
    CHECK(std::isnan(sum_of({kInf, -kInf}, true)));
    CHECK(sum_of({-std::numeric_limits<double>::infinity(), 1e300}, true) ==
          -std::numeric_limits<double>::infinity());
    CHECK(std::isnan(sum_of({1e300, std::numeric_limits<double>::quiet_NaN()}, true)));
}

TEST_CASE("a chunk whose values lie too far apart is raw, and keeps them all") {
    Reduction reduction(Dtype::kFloat64, Operator::kSum, Width::kUsual, 8, 2);
    const Vectors<double> vectors(8, {1e20, 1e-3});
    const std::vector<double> result = reduction.reduce(vectors);
    CHECK(reduction.scale().raw);
    CHECK(result[0] == 8e20);
    CHECK(result[1] == doctest::Approx(8e-3).epsilon(1e-15));
    // Between members as well.
    CHECK(sum_of({1e20, 1e-3, -1e20}, true) == 0);
    // Who asks for fewer bits has asked for less.
    CHECK(reduced(Dtype::kFloat32, Operator::kSum, Width::kPair, std::vector<float>{1e20F, 1e-3F}, false) ==
          doctest::Approx(1e20F).epsilon(1e-8));
}

TEST_CASE("extreme values have normal scales") {
    const float tiny = std::numeric_limits<float>::denorm_min();
    CHECK(sum_of({tiny, tiny, tiny}) == 3 * tiny);
    CHECK(sum_of({1.17549435e-38F, tiny}) == 1.17549435e-38F + tiny);
    const float most = std::numeric_limits<float>::max();
    CHECK(sum_of({most, -most / 2}) == most / 2);
    CHECK(sum_of({most, most}) == kInf);
    const double largest = std::numeric_limits<double>::max();
    CHECK(sum_of({largest, -largest}) == 0);
    CHECK(sum_of({largest, largest}) == std::numeric_limits<double>::infinity());
    CHECK(sum_of({1e-280, 2e-280}) == doctest::Approx(3e-280).epsilon(1e-14));
    // No normal scale is large enough for these.
    const double least = std::numeric_limits<double>::denorm_min();
    CHECK(sum_of({least, least}, true) == 2 * least);
    CHECK(sum_of({1e-300, least}, true) == 1e-300 + least);
}

TEST_CASE("a wide sum of float32 is rounded once") {
    // 1 + 2^-24 + 2^-58: a double would drop the last and leave a tie.
    CHECK(sum_of({1.0F, 0x1p-24F, 0x1p-35F + 0x1p-58F, -0x1p-35F}) == 1.0F + 0x1p-23F);
}

TEST_CASE("sums of 16-bit floats are rounded once") {
    const auto sum = [](Dtype dtype, const std::vector<std::uint16_t>& bits) {
        return reduced(dtype, Operator::kSum, Width::kUsual, bits, false);
    };
    // 1 + 2^-8 + 2^-27: a float32 would drop the last and leave a tie; then below it, and of the other sign.
    CHECK(sum(Dtype::kBfloat16, {0x3f80, 0x3b80, 0x3200}) == 0x3f81);
    CHECK(sum(Dtype::kBfloat16, {0x3f81, 0x3b80, 0xb200}) == 0x3f81);
    CHECK(sum(Dtype::kBfloat16, {0xbf80, 0xbb80, 0xb200}) == 0xbf81);
    CHECK(sum(Dtype::kBfloat16, {0x3f80, 0x3b80, 0}) == 0x3f80);  // a tie
    // 1 + 2^-11 + 2^-24, and 1 + 2^-10 + 2^-11 - 2^-24.
    CHECK(sum(Dtype::kFloat16, {0x3c00, 0x1000, 0x0001}) == 0x3c01);
    CHECK(sum(Dtype::kFloat16, {0x3c01, 0x1000, 0x8001}) == 0x3c01);
    CHECK(sum(Dtype::kFloat16, {0x3c01, 0x1000, 0}) == 0x3c02);
    // Subnormal: 2^-133, 2^-126 and 3 x 2^-132; 2^-24 and 2^-14.
    CHECK(sum(Dtype::kBfloat16, {0x0001, 0x0080, 0x0006}) == 0x0087);
    CHECK(sum(Dtype::kFloat16, {0x0001, 0x0400, 0x8003}) == 0x03fe);
}

TEST_CASE("zeros need no exponent, and have no sign") {
    CHECK(std::signbit(sum_of({-0.0F, -0.0F})) == false);
    CHECK(std::signbit(sum_of({-0.0, -0.0})) == false);
    const Layout layout = layout_for(Dtype::kFloat32, Operator::kSum);
    const std::vector<float> zeros(10, -0.0F);
    const Exponents found = exponents_of(layout, std::as_bytes(std::span(zeros)));
    CHECK(found.largest == Exponents::kNone);
    CHECK(found.minus_smallest == Exponents::kNone);
    CHECK(scale_of(layout, found) == Scale{.raw = false, .e = 0});
    // Zeros say nothing about the smallest.
    CHECK(sum_of({0.0F, 3.0F, -0.0F}) == 3.0F);
}

TEST_CASE("exponents are frexp's") {
    const Layout layout = layout_for(Dtype::kFloat64, Operator::kSum);
    for (const double value : {1.0, -1.0, 0.5, 1.9, 1e300, -1e-300, 5e-324, 2.2250738585072014e-308}) {
        CAPTURE(value);
        int e = 0;
        (void)std::frexp(value, &e);
        const std::vector<double> values = {0, value, -value};
        const Exponents found = exponents_of(layout, std::as_bytes(std::span(values)));
        CHECK(found.largest == e);
        CHECK(found.minus_smallest == -e);
    }
    const Layout half = layout_for(Dtype::kFloat16, Operator::kSum);
    const std::vector<std::uint16_t> values = {0x3c00, 0x0001, 0x8000, 0xfbff};  // 1, 2^-24, -0, -65504
    const Exponents found = exponents_of(half, std::as_bytes(std::span(values)));
    CHECK(found.largest == 16);
    CHECK(found.minus_smallest == 23);
}

TEST_CASE("a value beyond the agreed scale is seen and held at the bound") {
    const Layout layout = layout_for(Dtype::kFloat32, Operator::kSum);
    const Scale scale{.raw = false, .e = 1};
    for (const float value : {8.0F, -8.0F, kInf, kNan}) {
        CAPTURE(value);
        const std::vector<float> values = {1.0F, value};
        std::vector<std::byte> out(64);
        CHECK_FALSE(encode(layout, scale, std::as_bytes(std::span(values)), out));
        std::vector<float> back(2);
        decode(layout, scale, out, std::as_writable_bytes(std::span(back)));
        CHECK(back[0] == 1.0F);
        CHECK(std::abs(back[1]) <= 2.0F);
    }
    const std::vector<float> values = {2.0F, -2.0F};  // the bound itself
    std::vector<std::byte> out(64);
    CHECK(encode(layout, scale, std::as_bytes(std::span(values)), out));
}

TEST_CASE("whatever exponents a packet claims, a scale is raw or normal") {
    std::mt19937_64 random(7);
    constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
    constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
    const auto any = [&]() -> std::int32_t {
        switch (random() % 4) {
            case 0:
                return static_cast<std::int32_t>(random() % 2200) - 1100;
            case 1:
                return random() % 2 != 0 ? kMost - static_cast<std::int32_t>(random() % 3)
                                         : kLeast + static_cast<std::int32_t>(random() % 3);
            default:
                return static_cast<std::int32_t>(random());
        }
    };
    int scaled = 0;
    for (int round = 0; round < 100000; ++round) {
        const Width width = std::array{Width::kWide, Width::kPair, Width::kQuarter}[random() % 3];
        const Layout layout = layout_for(Dtype::kFloat32, Operator::kSum, width);
        const Scale scale = scale_of(layout, {.largest = any(), .minus_smallest = any()});
        if (!scale.raw) {
            ++scaled;
            const int shift = (width == Width::kWide ? 62 : (width == Width::kPair ? 30 : 14)) - 3 - scale.e;
            REQUIRE(std::isnormal(std::ldexp(1.0, shift)));
            REQUIRE(std::isnormal(std::ldexp(1.0, -shift)));
        }
    }
    CHECK(scaled > 1000);
}

TEST_CASE("the least and the largest are exact, in the order of floats") {
    const std::vector<float> values = {3.5F, -2.0F, kInf, -0.0F, 0.0F, -1e-42F, -kInf};
    CHECK(reduced(Dtype::kFloat32, Operator::kMin, Width::kUsual, values, false) == -kInf);
    CHECK(reduced(Dtype::kFloat32, Operator::kMax, Width::kUsual, values, false) == kInf);
    CHECK(reduced(Dtype::kFloat32, Operator::kMin, Width::kUsual, std::vector<float>{-1e-42F, -2e-42F, 1.0F},
                  false) == -2e-42F);
    CHECK(std::signbit(
        reduced(Dtype::kFloat32, Operator::kMin, Width::kUsual, std::vector<float>{0.0F, -0.0F}, false)));
    CHECK(reduced(Dtype::kInt32, Operator::kMin, Width::kUsual, std::vector<std::int32_t>{5, -7, 0}, false) ==
          -7);
    const std::int64_t big = std::int64_t{1} << 60;
    CHECK(reduced(Dtype::kInt64, Operator::kMax, Width::kUsual, std::vector<std::int64_t>{5, big, -big},
                  true) == big);
    CHECK(reduced(Dtype::kFloat64, Operator::kMin, Width::kUsual, std::vector<double>{1e-300, -1e300},
                  true) == -1e300);
    // bf16: -1, 2, -3
    CHECK(reduced(Dtype::kBfloat16, Operator::kMin, Width::kUsual,
                  std::vector<std::uint16_t>{0xbf80, 0x4000, 0xc040}, false) == 0xc040);
}

TEST_CASE("bits are exact") {
    const std::vector<std::int32_t> values = {0x7ff0f0f0, 0x0ff00ff1, 0x1ff10ff1};
    CHECK(reduced(Dtype::kInt32, Operator::kAnd, Width::kUsual, values, false) == 0x0ff000f0);
    CHECK(reduced(Dtype::kInt32, Operator::kOr, Width::kUsual, values, false) == 0x7ff1fff1);
    CHECK(reduced(Dtype::kInt32, Operator::kXor, Width::kUsual, values, false) ==
          (0x7ff0f0f0 ^ 0x0ff00ff1 ^ 0x1ff10ff1));
}

TEST_CASE("products are folded in the order of ranks, each step rounded") {
    std::mt19937_64 random(11);
    std::vector<float> values(64);
    float want = 1;
    for (float& value : values) {
        value = 0.5F + static_cast<float>(random() % 10000) / 9999;
        want *= value;
    }
    CHECK(reduced(Dtype::kFloat32, Operator::kProd, Width::kUsual, values, true) == want);
    CHECK(reduced(Dtype::kInt32, Operator::kProd, Width::kUsual,
                  std::vector<std::int32_t>{1 << 20, 1 << 13, 3}, true) == 0);
    CHECK(reduced(Dtype::kInt64, Operator::kProd, Width::kUsual, std::vector<std::int64_t>{-3, 5, 7}, true) ==
          -105);
    std::vector<std::byte> bytes(8);
    CHECK_FALSE(fold_raw(Dtype::kNone, Operator::kSum, bytes, bytes));
    CHECK_FALSE(fold_raw(Dtype::kFloat32, Operator::kXor, bytes, bytes));
}

}  // namespace ask::values
