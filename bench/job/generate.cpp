// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "bench/job/job.h"

namespace ask::bench {
namespace {

// Cumulated weights 1/rank; drawn from by bisection.
std::vector<double> zipf_weights(std::uint32_t keys) {
    std::vector<double> weights(keys);
    double sum = 0;
    for (std::uint32_t rank = 0; rank < keys; ++rank) {
        sum += 1.0 / (rank + 1.0);
        weights[rank] = sum;
    }
    return weights;
}

}  // namespace

Result<> generate(const Generation& what) {
    const std::vector<double> weights = what.zipf ? zipf_weights(what.keys) : std::vector<double>();
    std::mt19937_64 random(what.seed);
    std::uniform_real_distribution<double> place(0, what.zipf ? weights.back() : 1);
    std::uniform_int_distribution<std::uint32_t> any(0, what.keys - 1);
    for (std::uint64_t i = 0; i < what.tuples; ++i) {
        std::uint32_t key = 0;
        if (what.zipf) {
            key = static_cast<std::uint32_t>(std::ranges::lower_bound(weights, place(random)) -
                                             weights.begin());
        } else {
            key = any(random);
        }
        std::array<char, 16> line{};
        char* end = std::to_chars(line.data(), line.data() + line.size() - 1, key, 16).ptr;
        *end++ = '\n';
        const auto bytes = static_cast<std::size_t>(end - line.data());
        if (std::fwrite(line.data(), 1, bytes, stdout) != bytes) {
            return Error::from_errno(errno, "write a key");
        }
    }
    return {};
}

}  // namespace ask::bench
