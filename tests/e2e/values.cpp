// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-values: random vectors of a group's members, and the bytes that each must get, from a seed.
//
// The reference adds member by member, in long double for sums of floats. It shares no code with the system.
// Floats are drawn such that no order of adding them rounds but the last: the answer is one, byte for byte.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace {

struct Options {
    std::uint64_t seed = 1;
    std::uint64_t members = 2;
    std::uint64_t count = 1000;
    std::string dtype = "int64";
    std::string op = "sum";
    bool odd = false;  // floats: an infinity and a NaN here and there, which travel raw
    std::string out;
};

// SplitMix64.
class Random {
 public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }

 private:
    std::uint64_t state_;
};

// Whole numbers below 2^16, of 2^-8: the sum of 64 is exact in a float32, in any order. A product is of
// powers of two.
template <typename T>
T float_of(Random& random, const Options& options) {
    const std::uint64_t bits = random.next();
    if (options.op == "prod") {
        return static_cast<T>(std::ldexp((bits & 1) != 0 ? 1.0 : -1.0, static_cast<int>(bits >> 1 & 3) - 1));
    }
    if (options.odd && bits >> 54 == 0) {
        return (bits & 1) != 0 ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
    }
    const auto whole = static_cast<std::int64_t>(bits & 0xffff) - 0x8000;
    return static_cast<T>(std::ldexp(static_cast<double>(whole), -8));
}

template <typename T>
T value_of(Random& random, const Options& options) {
    if constexpr (std::is_floating_point_v<T>) {
        return float_of<T>(random, options);
    } else {
        // One in 16 is at the edge of its type.
        const std::uint64_t bits = random.next();
        if (bits >> 60 == 0) {
            return (bits & 1) != 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
        }
        return static_cast<T>(random.next());
    }
}

// Integers wrap.
template <typename T>
T folded(const std::string& op, T a, T b) {
    if (op == "min") {
        return b < a ? b : a;
    }
    if (op == "max") {
        return b > a ? b : a;
    }
    if constexpr (std::is_floating_point_v<T>) {
        return op == "sum" ? a + b : a * b;
    } else {
        using U = std::make_unsigned_t<T>;
        const auto x = static_cast<U>(a);
        const auto y = static_cast<U>(b);
        if (op == "sum") {
            return static_cast<T>(x + y);
        }
        if (op == "prod") {
            return static_cast<T>(x * y);
        }
        if (op == "and") {
            return static_cast<T>(x & y);
        }
        return static_cast<T>(op == "or" ? x | y : x ^ y);
    }
}

template <typename T>
bool write_file(const std::string& name, const std::vector<T>& values) {
    std::ofstream file(name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
    file.close();
    return file.good();
}

template <typename T>
bool make(const Options& options) {
    Random random(options.seed);
    std::vector<T> expected(options.count);
    for (std::uint64_t member = 0; member < options.members; ++member) {
        std::vector<T> values(options.count);
        for (std::uint64_t i = 0; i < options.count; ++i) {
            values[i] = value_of<T>(random, options);
            expected[i] = member == 0 ? values[i] : folded(options.op, expected[i], values[i]);
        }
        if (!write_file(options.out + "/in" + std::to_string(member), values)) {
            return false;
        }
    }
    return write_file(options.out + "/expected", expected);
}

int usage() {
    std::fputs(
        "usage: ask-e2e-values --out DIR [--seed S] [--members N] [--count N] [--odd]\n"
        "           [--dtype int32|int64|float32|float64] [--op sum|prod|min|max|and|or|xor]\n",
        stderr);
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string flag = argv[i];
        if (flag == "--odd") {
            options.odd = true;
            continue;
        }
        if (i + 1 == argc) {
            return usage();
        }
        const std::string value = argv[++i];
        if (flag == "--out") {
            options.out = value;
        } else if (flag == "--dtype") {
            options.dtype = value;
        } else if (flag == "--op") {
            options.op = value;
        } else if (flag == "--seed") {
            options.seed = std::strtoull(value.c_str(), nullptr, 10);
        } else if (flag == "--members") {
            options.members = std::strtoull(value.c_str(), nullptr, 10);
        } else if (flag == "--count") {
            options.count = std::strtoull(value.c_str(), nullptr, 10);
        } else {
            return usage();
        }
    }
    bool made = false;
    if (options.dtype == "int32") {
        made = make<std::int32_t>(options);
    } else if (options.dtype == "int64") {
        made = make<std::int64_t>(options);
    } else if (options.dtype == "float32") {
        made = make<float>(options);
    } else if (options.dtype == "float64") {
        made = make<double>(options);
    } else {
        return usage();
    }
    if (!made) {
        std::fprintf(stderr, "ask-e2e-values: cannot write to %s\n", options.out.c_str());
    }
    return made ? 0 : 1;
}
