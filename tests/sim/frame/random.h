// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same everywhere: the library's distributions are not.
#pragma once

#include <cstdint>

namespace ask::sim {

// splitmix64, also as a hash: streams for different uses of one seed do not depend on each other.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
}

class Random {
 public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    Random(std::uint64_t seed, std::uint64_t stream) : state_(mix(seed) ^ mix(stream + 0x5bd1e995)) {}

    std::uint64_t next() {
        const std::uint64_t out = mix(state_);
        state_ += 0x9e3779b97f4a7c15ULL;
        return out;
    }
    // From 0 to n - 1; 0 for n = 0.
    std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
    // From low to high, both included.
    std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
    // True `n` times in a million.
    bool ppm(std::uint64_t n) { return n > 0 && below(1'000'000) < n; }

 private:
    std::uint64_t state_;
};

}  // namespace ask::sim
