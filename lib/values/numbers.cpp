// SPDX-License-Identifier: Apache-2.0
#include "lib/values/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/abi/values.h"
#include "lib/base/bytes.h"

namespace ask::values {

namespace {

template <typename T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

template <typename T>
void store(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof(value));
}

// The 16-bit floats, by way of float32, which has all of their values.
struct Bfloat16 {
    std::uint16_t bits;
    explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
    static Bfloat16 from(float value) {
        const auto word = std::bit_cast<std::uint32_t>(value);
        if (std::isnan(value)) {
            return {static_cast<std::uint16_t>(word >> 16 | 0x40)};
        }
        return {static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16)};
    }
};

struct Float16 {
    std::uint16_t bits;
    explicit operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
    static Float16 from(float value) { return {std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))}; }
};

template <typename T>
double as_double(T value) {
    if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<double>(value);
    } else {
        return static_cast<double>(static_cast<float>(value));
    }
}

// Calls `f` with a value of the dtype's type.
template <typename F>
void with_float(Dtype dtype, F&& f) {
    switch (dtype) {
        case Dtype::kFloat32:
            f(float{});
            break;
        case Dtype::kFloat64:
            f(double{});
            break;
        case Dtype::kBfloat16:
            f(Bfloat16{});
            break;
        case Dtype::kFloat16:
            f(Float16{});
            break;
        default:
            break;
    }
}

template <typename F>
void with_integer(Dtype dtype, F&& f) {
    switch (dtype) {
        case Dtype::kInt8:
            f(std::int8_t{});
            break;
        case Dtype::kUint8:
            f(std::uint8_t{});
            break;
        case Dtype::kInt16:
            f(std::int16_t{});
            break;
        case Dtype::kUint16:
            f(std::uint16_t{});
            break;
        case Dtype::kInt32:
            f(std::int32_t{});
            break;
        case Dtype::kUint32:
            f(std::uint32_t{});
            break;
        case Dtype::kInt64:
            f(std::int64_t{});
            break;
        case Dtype::kUint64:
            f(std::uint64_t{});
            break;
        default:
            break;
    }
}

bool is_integer(Dtype dtype) {
    bool found = false;
    with_integer(dtype, [&](auto) { found = true; });
    return found;
}

// Bits that a sum of all members has room for.
int lane_bits(Way way) {
    switch (way) {
        case Way::kWide:
            return 62;
        case Way::kPair:
            return 30;
        default:
            return 14;
    }
}

// Bits that the smallest value of a chunk keeps, or the chunk travels raw. Wide, float32 keeps all of them,
// so that its sums are exact up to the last rounding, and float64 half of them. Of the 16-bit floats, which
// have pairs unasked, none vanishes. Who asks for less width has asked for bounds that hang on the largest
// value.
int kept_bits(Way way, Dtype dtype) {
    constexpr int kNone = -(1 << 16);
    switch (way) {
        case Way::kWide:
            return dtype == Dtype::kFloat64 ? 27 : 24;
        case Way::kPair:
            return dtype == Dtype::kFloat32 ? kNone : 1;
        default:
            return kNone;
    }
}

int shift_of(const Layout& layout, Scale scale) {
    return lane_bits(layout.way) - layout.log_members - scale.e;
}

// A power of two whose reciprocal is normal too, since e is bounded.
double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

// Scales whose reciprocal is a normal double.
constexpr int kMostShift = 1000;

// The order of floats as that of integers; its own inverse.
std::int32_t ordered(std::int32_t bits) {
    return bits ^ static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 31) >> 1);
}

Way way_of(const Operation& operation) {
    const std::size_t bytes = dtype_bytes(operation.dtype);
    switch (operation.op) {
        case Operator::kSum:
            break;
        case Operator::kProd:
            return Way::kRaw;
        case Operator::kMin:
        case Operator::kMax:
            return bytes == 8 ? Way::kRaw : Way::kOrdered;
        default:
            return Way::kCopy;
    }
    if (is_integer(operation.dtype)) {
        return bytes >= 4 ? Way::kCopy : Way::kWidened;
    }
    switch (operation.width) {
        case Width::kWide:
            return Way::kWide;
        case Width::kPair:
            return Way::kPair;
        case Width::kQuarter:
            return Way::kQuarter;
        default:
            return bytes >= 4 ? Way::kWide : Way::kPair;
    }
}

std::uint32_t lane_bytes(Way way, Dtype dtype) {
    switch (way) {
        case Way::kOrdered:
        case Way::kPair:
            return 4;
        case Way::kWide:
            return 8;
        case Way::kQuarter:
            return 2;
        case Way::kWidened:
            return 2 * static_cast<std::uint32_t>(dtype_bytes(dtype));
        default:
            return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(dtype_bytes(dtype)));
    }
}

std::uint8_t lane_op_of(const Operation& operation, Way way) {
    if (way == Way::kRaw) {
        return ASK_VALUES_ADD64;  // no switch folds it
    }
    switch (operation.op) {
        case Operator::kSum:
            // Sums of 64 members' 8 bits stay in 16: words of four never carry from one to the next.
            return is_integer(operation.dtype) && lane_bytes(way, operation.dtype) == 4 ? ASK_VALUES_ADD32
                                                                                        : ASK_VALUES_ADD64;
        case Operator::kMin:
            return ASK_VALUES_MIN32;
        case Operator::kMax:
            return ASK_VALUES_MAX32;
        case Operator::kAnd:
            return ASK_VALUES_AND64;
        case Operator::kXor:
            return ASK_VALUES_XOR64;
        default:
            return ASK_VALUES_OR64;  // of a broadcast, in which all but the root have 0
    }
}

std::uint8_t blocks_for(std::uint64_t bytes) {
    return static_cast<std::uint8_t>((bytes + kBlock - 1) / kBlock);
}

int exponent_of(std::uint64_t magnitude) {
    int e = 0;
    (void)std::frexp(std::bit_cast<double>(magnitude), &e);
    return e;
}

// Magnitudes are ordered as their bits are, NaN and Inf above all others.
template <typename T>
void find_exponents(std::span<const std::byte> values, Exponents& found) {
    constexpr std::uint64_t kInfinite = std::uint64_t{0x7ff} << 52;
    std::uint64_t largest = 0;
    std::uint64_t smallest_less_one = std::numeric_limits<std::uint64_t>::max();  // what 0 is, too
    for (std::size_t at = 0; at < values.size(); at += sizeof(T)) {
        const auto bits = std::bit_cast<std::uint64_t>(as_double(load<T>(values.data() + at)));
        const std::uint64_t magnitude = bits << 1 >> 1;
        largest = std::max(largest, magnitude);
        smallest_less_one = std::min(smallest_less_one, magnitude - 1);
    }
    if (largest >= kInfinite) {
        found.largest = Exponents::kRaw;
    } else if (largest != 0) {
        found.largest = exponent_of(largest);
        found.minus_smallest = -exponent_of(smallest_less_one + 1);
    }
}

// A value as an integer, clamped; false if it was beyond.
bool scaled(double value, double scale, std::int64_t most, std::int64_t& out) {
    const double product = value * scale;
    if (!(std::abs(product) <= static_cast<double>(most))) {
        out = std::isnan(product) ? 0 : (product < 0 ? -most : most);
        return false;
    }
    out = std::llrint(product);
    return true;
}

// Lanes of `Bits` bits in words of 64: each is added at its place with its sign, so that a word's sum is the
// sum of the lanes' sums at their places, and comes apart again from the lowest on.
template <typename T, unsigned Bits>
bool encode_lanes(double scale, std::int64_t most, std::span<const std::byte> in, std::span<std::byte> out) {
    constexpr std::size_t kLanes = 64 / Bits;
    const std::size_t count = in.size() / sizeof(T);
    bool fits = true;
    for (std::size_t first = 0, word = 0; first < count; first += kLanes, ++word) {
        std::uint64_t sum = 0;
        for (std::size_t lane = 0; lane < kLanes && first + lane < count; ++lane) {
            std::int64_t value = 0;
            fits = scaled(as_double(load<T>(in.data() + (first + lane) * sizeof(T))), scale, most, value) &&
                   fits;
            sum += static_cast<std::uint64_t>(value) << (Bits * (kLanes - 1 - lane) % 64);
        }
        store(out.data() + word * 8, sum);
    }
    return fits;
}

template <unsigned Bits>
std::int64_t take_lowest(std::uint64_t& word) {
    if constexpr (Bits == 64) {
        return static_cast<std::int64_t>(word);
    } else {
        const std::int64_t value = static_cast<std::int64_t>(word << (64 - Bits)) >> (64 - Bits);
        word = (word - static_cast<std::uint64_t>(value)) >> Bits;
        return value;
    }
}

// Cut to the bits that a float has; what was cut off leaves its trace in the last one, so that who rounds
// this to fewer bits finds no tie where there was none.
double cut_to_float(std::int64_t value) {
    const std::uint64_t magnitude =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    const int cut =
        std::max(static_cast<int>(std::bit_width(magnitude)) - std::numeric_limits<float>::digits, 0);
    const std::uint64_t kept = magnitude >> cut;
    const std::uint64_t trace = (kept << cut) == magnitude ? 0 : 1;
    const auto all = static_cast<double>((kept | trace) << cut);
    return value < 0 ? -all : all;
}

// Rounded once. The power of two rounds nothing: what is subnormal as a float has no more bits than that.
template <typename T, unsigned Bits>
T unscaled(std::int64_t value, double inverse) {
    if constexpr (std::is_same_v<T, float> && Bits == 64) {
        // Not by a double, which would round sums of more than 53 bits a first time.
        return static_cast<float>(static_cast<double>(static_cast<float>(value)) * inverse);
    } else if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<T>(static_cast<double>(value) * inverse);
    } else {
        return T::from(static_cast<float>(cut_to_float(value) * inverse));
    }
}

template <typename T, unsigned Bits>
void decode_lanes(double inverse, std::span<const std::byte> in, std::span<std::byte> out) {
    constexpr std::size_t kLanes = 64 / Bits;
    const std::size_t count = out.size() / sizeof(T);
    for (std::size_t first = 0, at = 0; first < count; first += kLanes, ++at) {
        auto word = load<std::uint64_t>(in.data() + at * 8);
        for (std::size_t lane = kLanes; lane-- > 0;) {
            const T value = unscaled<T, Bits>(take_lowest<Bits>(word), inverse);
            if (first + lane < count) {
                store(out.data() + (first + lane) * sizeof(T), value);
            }
        }
    }
}

template <typename T>
bool encode_scaled(const Layout& layout, Scale scale, std::span<const std::byte> in,
                   std::span<std::byte> out) {
    const double factor = power_of_two(shift_of(layout, scale));
    const std::int64_t most = std::int64_t{1} << (lane_bits(layout.way) - layout.log_members);
    switch (layout.way) {
        case Way::kWide:
            return encode_lanes<T, 64>(factor, most, in, out);
        case Way::kPair:
            return encode_lanes<T, 32>(factor, most, in, out);
        default:
            return encode_lanes<T, 16>(factor, most, in, out);
    }
}

template <typename T>
void decode_scaled(const Layout& layout, Scale scale, std::span<const std::byte> in,
                   std::span<std::byte> out) {
    const double inverse = power_of_two(-shift_of(layout, scale));
    switch (layout.way) {
        case Way::kWide:
            return decode_lanes<T, 64>(inverse, in, out);
        case Way::kPair:
            return decode_lanes<T, 32>(inverse, in, out);
        default:
            return decode_lanes<T, 16>(inverse, in, out);
    }
}

// Integers as others that hold all of their values, or back. `flip` swaps the halves of unsigned 32 bits, so
// that their order is that of signed ones.
template <typename From, typename To>
void convert(std::span<const std::byte> in, std::span<std::byte> out, std::size_t count, To flip = 0) {
    for (std::size_t i = 0; i < count; ++i) {
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): these are numbers, whose sign is to be kept.
        const auto value = static_cast<To>(load<From>(in.data() + i * sizeof(From)));
        store(out.data() + i * sizeof(To), static_cast<To>(value ^ flip));
    }
}

template <typename T>
constexpr std::int32_t kFlip =
    std::is_same_v<T, std::uint32_t> ? std::numeric_limits<std::int32_t>::min() : 0;

// Unsigned, so that a lane's sum is one of 64 small numbers.
template <typename T>
using Widened = std::conditional_t<sizeof(T) == 1, std::uint16_t, std::uint32_t>;

void encode_integers(const Layout& layout, std::span<const std::byte> in, std::span<std::byte> out) {
    with_integer(layout.dtype, [&]<typename T>(T) {
        const std::size_t count = in.size() / sizeof(T);
        if (layout.way == Way::kOrdered) {
            convert<T, std::int32_t>(in, out, count, kFlip<T>);
        } else {
            convert<std::make_unsigned_t<T>, Widened<T>>(in, out, count);
        }
    });
}

void decode_integers(const Layout& layout, std::span<const std::byte> in, std::span<std::byte> out) {
    with_integer(layout.dtype, [&]<typename T>(T) {
        const std::size_t count = out.size() / sizeof(T);
        if (layout.way == Way::kOrdered) {
            convert<std::int32_t, T>(in, out, count, static_cast<T>(kFlip<T>));
        } else {
            convert<Widened<T>, T>(in, out, count);
        }
    });
}

template <typename T>
void encode_ordered(std::span<const std::byte> in, std::span<std::byte> out) {
    for (std::size_t i = 0; i < in.size() / sizeof(T); ++i) {
        if constexpr (std::is_same_v<T, float>) {
            store(out.data() + 4 * i, ordered(load<std::int32_t>(in.data() + 4 * i)));
        } else {
            const auto value = static_cast<float>(load<T>(in.data() + sizeof(T) * i));
            store(out.data() + 4 * i, ordered(std::bit_cast<std::int32_t>(value)));
        }
    }
}

template <typename T>
void decode_ordered(std::span<const std::byte> in, std::span<std::byte> out) {
    for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
        const std::int32_t bits = ordered(load<std::int32_t>(in.data() + 4 * i));
        if constexpr (std::is_same_v<T, float>) {
            store(out.data() + 4 * i, bits);
        } else {
            store(out.data() + sizeof(T) * i, T::from(std::bit_cast<float>(bits)));
        }
    }
}

template <typename T, typename F>
void fold_lanes(std::span<std::byte> sum, std::span<const std::byte> part, F&& f) {
    const std::size_t bytes = std::min(sum.size(), part.size()) / sizeof(T) * sizeof(T);
    for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
        store(sum.data() + at, static_cast<T>(f(load<T>(sum.data() + at), load<T>(part.data() + at))));
    }
}

// Integers wrap.
template <typename T>
bool fold_raw_integers(Operator op, std::span<std::byte> sum, std::span<const std::byte> part) {
    using Unsigned = std::make_unsigned_t<T>;
    switch (op) {
        case Operator::kSum:
            fold_lanes<Unsigned>(sum, part, [](Unsigned a, Unsigned b) { return a + b; });
            return true;
        case Operator::kProd:
            fold_lanes<Unsigned>(sum, part, [](Unsigned a, Unsigned b) {
                return std::uint64_t{a} * b;  // int, which 16 bits would become, overflows
            });
            return true;
        case Operator::kMin:
            fold_lanes<T>(sum, part, [](T a, T b) { return b < a ? b : a; });
            return true;
        case Operator::kMax:
            fold_lanes<T>(sum, part, [](T a, T b) { return a < b ? b : a; });
            return true;
        default:
            return false;
    }
}

// Each step is rounded to the dtype.
template <typename T>
bool fold_raw_floats(Operator op, std::span<std::byte> sum, std::span<const std::byte> part) {
    using Wider = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto each = [&](auto&& f) {
        fold_lanes<T>(sum, part, [&f](T a, T b) {
            const Wider value = f(static_cast<Wider>(a), static_cast<Wider>(b));
            if constexpr (std::is_arithmetic_v<T>) {
                return value;
            } else {
                return T::from(value);
            }
        });
        return true;
    };
    switch (op) {
        case Operator::kSum:
            return each([](Wider a, Wider b) { return a + b; });
        case Operator::kProd:
            return each([](Wider a, Wider b) { return a * b; });
        case Operator::kMin:
            return each([](Wider a, Wider b) { return b < a ? b : a; });
        case Operator::kMax:
            return each([](Wider a, Wider b) { return a < b ? b : a; });
        default:
            return false;
    }
}

}  // namespace

std::uint32_t Layout::values_of(std::uint64_t chunk) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(values_a_chunk, count - first_value(chunk)));
}

std::uint8_t Layout::blocks_of(std::uint64_t chunk, bool raw) const {
    const std::uint64_t bytes = raw ? dtype_bytes(dtype) : value_bytes;
    return count == 0 ? 0 : blocks_for(values_of(chunk) * bytes);
}

std::uint8_t Layout::blocks_of_exponents(std::uint64_t chunk) const {
    const std::uint64_t first = chunk * chunks_an_exponent_chunk;
    const std::uint64_t lanes = std::min<std::uint64_t>(chunks_an_exponent_chunk, chunks - first);
    return blocks_for(lanes * sizeof(Exponents));
}

Layout lay_out(const Operation& operation, const GroupTerms& terms) {
    const std::uint32_t bytes = terms.blocks * static_cast<std::uint32_t>(kBlock);
    Layout layout;
    layout.way = way_of(operation);
    layout.dtype = operation.dtype;
    layout.lane_op = lane_op_of(operation, layout.way);
    layout.log_members = static_cast<std::uint8_t>(std::bit_width(terms.size() - 1));
    layout.count = operation.count;
    layout.value_bytes = lane_bytes(layout.way, operation.dtype);
    // A chunk has room for its values raw, too.
    layout.values_a_chunk =
        bytes / std::max(layout.value_bytes, static_cast<std::uint32_t>(dtype_bytes(operation.dtype)));
    layout.chunks = (operation.count + layout.values_a_chunk - 1) / layout.values_a_chunk;
    if (operation.kind == Kind::kBarrier) {
        layout.chunks = 1;
    }
    if (layout.way == Way::kWide || layout.way == Way::kPair || layout.way == Way::kQuarter) {
        layout.chunks_an_exponent_chunk = bytes / static_cast<std::uint32_t>(sizeof(Exponents));
        layout.exponent_chunks =
            (layout.chunks + layout.chunks_an_exponent_chunk - 1) / layout.chunks_an_exponent_chunk;
    }
    return layout;
}

Exponents exponents_of(const Layout& layout, std::span<const std::byte> values) {
    Exponents found;
    with_float(layout.dtype, [&](auto value) { find_exponents<decltype(value)>(values, found); });
    return found;
}

Scale scale_of(const Layout& layout, Exponents agreed) {
    if (layout.exponent_chunks == 0) {
        return {.raw = layout.way == Way::kRaw, .e = 0};
    }
    if (agreed.largest == Exponents::kNone) {
        return {};
    }
    const int bits = lane_bits(layout.way) - layout.log_members;
    // What no double has is a hostile packet's: as good as any other that the check passed.
    if (agreed.largest > 2000 || agreed.largest < -2000 || agreed.minus_smallest < -2000 ||
        agreed.minus_smallest > 2000) {
        return {.raw = true, .e = 0};
    }
    const int e = std::clamp(agreed.largest, bits - kMostShift, bits + kMostShift);
    const int smallest_has = bits - (e + agreed.minus_smallest);
    if (e < agreed.largest || smallest_has < kept_bits(layout.way, layout.dtype)) {
        return {.raw = true, .e = 0};
    }
    return {.raw = false, .e = e};
}

bool encode(const Layout& layout, Scale scale, std::span<const std::byte> in, std::span<std::byte> out) {
    if (scale.raw || layout.way == Way::kCopy || layout.way == Way::kRaw) {
        copy_bytes(in, out.data());
        clear_bytes(out.subspan(in.size()));
        return true;
    }
    clear_bytes(out);
    if (is_integer(layout.dtype)) {
        encode_integers(layout, in, out);
        return true;
    }
    if (layout.way == Way::kOrdered) {
        with_float(layout.dtype, [&](auto value) {
            if constexpr (!std::is_same_v<decltype(value), double>) {
                encode_ordered<decltype(value)>(in, out);
            }
        });
        return true;
    }
    bool fits = true;
    with_float(layout.dtype,
               [&](auto value) { fits = encode_scaled<decltype(value)>(layout, scale, in, out); });
    return fits;
}

void decode(const Layout& layout, Scale scale, std::span<const std::byte> in, std::span<std::byte> out) {
    if (scale.raw || layout.way == Way::kCopy || layout.way == Way::kRaw) {
        copy_bytes(in.first(out.size()), out.data());
        return;
    }
    if (is_integer(layout.dtype)) {
        return decode_integers(layout, in, out);
    }
    with_float(layout.dtype, [&](auto value) {
        using T = decltype(value);
        if (layout.way != Way::kOrdered) {
            decode_scaled<T>(layout, scale, in, out);
        } else if constexpr (!std::is_same_v<T, double>) {
            decode_ordered<T>(in, out);
        }
    });
}

void fold(std::uint8_t lane_op, std::span<std::byte> sum, std::span<const std::byte> part) {
    using U64 = std::uint64_t;
    using U32 = std::uint32_t;
    using I32 = std::int32_t;
    switch (lane_op) {
        case ASK_VALUES_ADD64:
            return fold_lanes<U64>(sum, part, [](U64 a, U64 b) { return a + b; });
        case ASK_VALUES_ADD32:
            return fold_lanes<U32>(sum, part, [](U32 a, U32 b) { return a + b; });
        case ASK_VALUES_MIN32:
            return fold_lanes<I32>(sum, part, [](I32 a, I32 b) { return std::min(a, b); });
        case ASK_VALUES_MAX32:
            return fold_lanes<I32>(sum, part, [](I32 a, I32 b) { return std::max(a, b); });
        case ASK_VALUES_AND64:
            return fold_lanes<U64>(sum, part, [](U64 a, U64 b) { return a & b; });
        case ASK_VALUES_OR64:
            return fold_lanes<U64>(sum, part, [](U64 a, U64 b) { return a | b; });
        default:
            return fold_lanes<U64>(sum, part, [](U64 a, U64 b) { return a ^ b; });
    }
}

bool fold_raw(Dtype dtype, Operator op, std::span<std::byte> sum, std::span<const std::byte> part) {
    bool folded = false;
    with_integer(dtype, [&](auto value) { folded = fold_raw_integers<decltype(value)>(op, sum, part); });
    with_float(dtype, [&](auto value) { folded = fold_raw_floats<decltype(value)>(op, sum, part); });
    return folded;
}

}  // namespace ask::values
