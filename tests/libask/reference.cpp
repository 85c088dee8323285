// SPDX-License-Identifier: Apache-2.0
#include "tests/libask/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ask::e2e {
namespace {

// Floats of 16 bits: `kDigits` of a significand with the hidden one, exponents from `kLeast` on (of the least
// normal value), the largest finite value.
struct Bf16 {
    std::uint16_t bits;
    static constexpr int kDigits = 8;
    static constexpr int kLeast = -126;
};
struct Fp16 {
    std::uint16_t bits;
    static constexpr int kDigits = 11;
    static constexpr int kLeast = -14;
};

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Bf16> || std::is_same_v<T, Fp16>;
template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

template <typename T>
constexpr int digits() {
    if constexpr (kIsHalf<T>) {
        return T::kDigits;
    } else {
        return std::numeric_limits<T>::digits;
    }
}

template <typename T>
double wide(T value) {
    if constexpr (!kIsHalf<T>) {
        return static_cast<double>(value);
    } else {
        constexpr int kFraction = T::kDigits - 1;
        const int exponent = (value.bits & 0x7fff) >> kFraction;
        const int fraction = value.bits & ((1 << kFraction) - 1);
        const double sign = (value.bits & 0x8000) != 0 ? -1 : 1;
        if (exponent == (0x7fff >> kFraction)) {
            return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                                 : sign * std::numeric_limits<double>::infinity();
        }
        const int significand = exponent == 0 ? fraction : fraction | 1 << kFraction;
        return sign * std::ldexp(significand, T::kLeast - kFraction + std::max(exponent, 1) - 1);
    }
}

// Rounded to the nearest, of two to the even one.
template <typename T>
T narrow(double value) {
    if constexpr (!kIsHalf<T>) {
        return static_cast<T>(value);
    } else {
        constexpr int kFraction = T::kDigits - 1;
        constexpr unsigned kInfinity = 0x7fffU >> kFraction << kFraction;
        const unsigned sign = std::signbit(value) ? 0x8000 : 0;
        if (std::isnan(value)) {
            return {static_cast<std::uint16_t>(kInfinity | 1U << (kFraction - 1))};
        }
        const double size = std::fabs(value);
        if (size == 0 || std::isinf(size)) {
            return {static_cast<std::uint16_t>(sign | (size == 0 ? 0 : kInfinity))};
        }
        const int exponent = std::max(std::ilogb(size), T::kLeast);
        const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(size, kFraction - exponent)));
        // A significand that rounds up to two carries into the exponent, and from the last one into infinity.
        const unsigned normal = steps >> kFraction;
        const unsigned bits =
            normal == 0 ? steps : (static_cast<unsigned>(exponent - T::kLeast) << kFraction) + steps;
        return {static_cast<std::uint16_t>(sign | std::min(bits, kInfinity))};
    }
}

bool is_sum(int op) {
    return op == ASK_SUM || op >= ASK_SUM_32;
}

template <typename T>
T random_float(Random& random, const Case& what) {
    const std::uint64_t bits = random.next();
    const double sign = (bits & 1U) != 0 ? -1 : 1;
    if (what.style == Style::kOdd && bits >> 55U == 0) {
        return narrow<T>((bits >> 1U & 3U) == 0 ? std::numeric_limits<double>::quiet_NaN()
                                                : sign * std::numeric_limits<double>::infinity());
    }
    if (what.op == ASK_PROD) {
        // Any digits: each step rounds.
        return narrow<T>(sign * (0.5 + static_cast<double>(bits >> 12U & 0xffffU) / 65536));
    }
    if (what.style == Style::kReal) {
        // Four binary places apart at most: every type keeps sums of them.
        return narrow<T>(sign * std::ldexp(1 + static_cast<double>(bits >> 12U) * 0x1p-52,
                                           static_cast<int>(bits >> 1U & 3U)));
    }
    if (!is_sum(what.op)) {
        // Any finite value of the type; one in 16 is a zero.
        return narrow<T>((bits >> 4U & 15U) == 0 ? sign * 0.0
                                                 : sign * std::ldexp(static_cast<double>(bits >> 44U), -12));
    }
    // Whole multiples of 2^-4: the sum of eight is exact in eight digits, as its steps are.
    const auto most = what.op == ASK_SUM_16 || digits<T>() < 11 ? 16U : digits<T>() < 24 ? 128U : 65536U;
    return narrow<T>(sign * static_cast<double>(bits >> 8U & (most - 1)) / 16);
}

template <typename T>
T random_value(Random& random, const Case& what) {
    if constexpr (kIsFloat<T>) {
        return random_float<T>(random, what);
    } else {
        // One in 16 is at the edge of its type.
        const std::uint64_t bits = random.next();
        if (bits >> 60U == 0) {
            return (bits & 1U) != 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
        }
        return static_cast<T>(random.next());
    }
}

template <typename T>
std::vector<T> values_of(const Case& what, std::uint32_t rank) {
    Random random(what.seed * 64 + rank);
    std::vector<T> values(what.count);
    std::ranges::generate(values, [&] { return random_value<T>(random, what); });
    return values;
}

// One step of the fold.
template <typename T>
T folded(int op, T a, T b) {
    if constexpr (kIsFloat<T>) {
        const double x = wide(a);
        const double y = wide(b);
        if (is_sum(op) || op == ASK_PROD) {
            if constexpr (std::is_floating_point_v<T>) {
                return is_sum(op) ? a + b : a * b;
            } else {
                return narrow<T>(is_sum(op) ? x + y : x * y);
            }
        }
        // float64 keeps the first of two zeros; others have -0 before +0.
        const bool zeros = x == 0 && y == 0 && !std::is_same_v<T, double>;
        const bool less = zeros ? std::signbit(y) && !std::signbit(x) : y < x;
        const bool more = zeros ? std::signbit(x) && !std::signbit(y) : y > x;
        return (op == ASK_MIN ? less : more) ? b : a;
    } else {
        using U = std::make_unsigned_t<T>;
        // Of 64 bits, lest small types become a signed int.
        const std::uint64_t x = static_cast<U>(a);
        const std::uint64_t y = static_cast<U>(b);
        switch (op) {
            case ASK_SUM:
                return static_cast<T>(x + y);
            case ASK_PROD:
                return static_cast<T>(x * y);
            case ASK_MIN:
                return std::min(a, b);
            case ASK_MAX:
                return std::max(a, b);
            case ASK_BAND:
                return static_cast<T>(x & y);
            case ASK_BOR:
                return static_cast<T>(x | y);
            default:
                return static_cast<T>(x ^ y);
        }
    }
}

template <typename T>
bool same_bits(T a, T b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// A sum of values of any digits. float32's is the exact one rounded once or what the ranks' order gives,
// others' within what docs/values.md says of them.
template <typename T>
bool near_enough(int op, const std::vector<std::vector<T>>& inputs, std::size_t i, T in_order, T got) {
    long double exact = 0;
    for (const auto& input : inputs) {
        exact += wide(input[i]);
    }
    constexpr double kLargest = 16;  // nothing that is drawn is larger
    if (std::is_same_v<T, float> && op == ASK_SUM) {
        return same_bits(got, narrow<T>(static_cast<float>(exact))) || same_bits(got, in_order);
    }
    const auto members = static_cast<unsigned>(inputs.size());
    const auto log_members = static_cast<int>(std::bit_width(members - 1));
    const int lane = std::is_same_v<T, double> ? 62 : op == ASK_SUM_16 ? 14 : 30;
    const double bound = members * std::ldexp(kLargest, log_members - lane);
    const int exponent = std::max(std::ilogb(std::fabs(static_cast<double>(exact)) + bound), -14);
    const double rounding = std::ldexp(0.5, exponent - digits<T>() + 1);
    return same_bits(got, in_order) ||
           std::fabs(static_cast<double>(static_cast<long double>(wide(got)) - exact)) <= bound + rounding;
}

template <typename T>
bool right(const Case& what, const std::vector<std::vector<T>>& inputs, std::size_t i, T got) {
    T in_order = inputs[0][i];
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
        in_order = folded(what.op, in_order, inputs[rank][i]);
    }
    if constexpr (kIsFloat<T>) {
        if (std::isnan(wide(in_order))) {
            return std::isnan(wide(got));
        }
        if (is_sum(what.op)) {
            // A sum of zeros is +0 in the switch's way of adding; raw, those of -0 alone are -0.
            if (wide(in_order) == 0 && wide(got) == 0) {
                return !std::signbit(wide(got)) || same_bits(got, in_order);
            }
            return what.style == Style::kReal ? near_enough(what.op, inputs, i, in_order, got)
                                              : same_bits(got, in_order);
        }
    }
    return same_bits(got, in_order);
}

template <typename T>
std::string shown(T value) {
    if constexpr (kIsFloat<T>) {
        char text[40];
        std::snprintf(text, sizeof text, "%.17g", wide(value));
        return text;
    } else {
        return std::to_string(value);
    }
}

template <typename T>
std::optional<std::string> compare(const Case& what, const std::vector<std::byte>& bytes) {
    std::vector<std::vector<T>> inputs;
    for (std::uint32_t rank = 0; rank < what.members; ++rank) {
        inputs.push_back(values_of<T>(what, rank));
    }
    std::vector<T> got(what.count);
    if (bytes.size() != what.count * sizeof(T)) {
        return "not of its length";
    }
    if (!bytes.empty()) {
        std::memcpy(got.data(), bytes.data(), bytes.size());
    }
    for (std::size_t i = 0; i < what.count; ++i) {
        if (!right(what, inputs, i, got[i])) {
            std::string text = "value " + std::to_string(i) + " is " + shown(got[i]) + ", of";
            for (const auto& input : inputs) {
                text += " " + shown(input[i]);
            }
            return text;
        }
    }
    return std::nullopt;
}

template <typename Visitor>
auto visit(int dtype, const Visitor& visitor) {
    switch (dtype) {
        case ASK_INT8:
            return visitor(std::int8_t{});
        case ASK_UINT8:
            return visitor(std::uint8_t{});
        case ASK_INT16:
            return visitor(std::int16_t{});
        case ASK_UINT16:
            return visitor(std::uint16_t{});
        case ASK_INT32:
            return visitor(std::int32_t{});
        case ASK_UINT32:
            return visitor(std::uint32_t{});
        case ASK_INT64:
            return visitor(std::int64_t{});
        case ASK_UINT64:
            return visitor(std::uint64_t{});
        case ASK_BFLOAT16:
            return visitor(Bf16{});
        case ASK_FLOAT16:
            return visitor(Fp16{});
        case ASK_FLOAT32:
            return visitor(float{});
        default:
            return visitor(double{});
    }
}

}  // namespace

const char* name_of(Style style) {
    return style == Style::kExact ? "exact" : style == Style::kOdd ? "odd" : "real";
}
const char* dtype_name(int dtype) {
    static constexpr const char* kNames[] = {"",     "int32", "int64", "float32", "float64", "bf16",  "fp16",
                                             "int8", "uint8", "int16", "uint16",  "uint32",  "uint64"};
    return kNames[dtype];
}
const char* op_name(int op) {
    static constexpr const char* kNames[] = {"",    "sum", "prod", "min",   "max",
                                             "and", "or",  "xor",  "sum32", "sum16"};
    return kNames[op];
}

std::vector<std::byte> input_of(const Case& what, std::uint32_t rank) {
    return visit(what.dtype, [&](auto value) {
        const auto values = values_of<decltype(value)>(what, rank);
        std::vector<std::byte> bytes(what.count * sizeof(value));
        if (!bytes.empty()) {
            std::memcpy(bytes.data(), values.data(), bytes.size());
        }
        return bytes;
    });
}

std::optional<std::string> wrong(const Case& what, const std::vector<std::byte>& got) {
    return visit(what.dtype, [&](auto value) { return compare<decltype(value)>(what, got); });
}

std::uint64_t digest(const std::vector<std::byte>& bytes) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const std::byte byte : bytes) {
        hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;
    }
    return hash;
}

}  // namespace ask::e2e
