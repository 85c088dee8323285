// SPDX-License-Identifier: Apache-2.0
//
// What every way of tools/bench allreduce works on: vectors whose sum is known, and what it took to get it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/result.h"

namespace ask::bench {

enum class Dtype : std::uint8_t { kInt32, kInt64, kFloat32, kFloat64 };

[[nodiscard]] std::size_t size_of(Dtype dtype);

// into[i] += from[i] for whole elements.
void add(Dtype dtype, std::byte* into, const std::byte* from, std::size_t bytes);

// What all members do.
struct Work {
    Dtype dtype = Dtype::kInt32;
    std::size_t count = 1U << 20U;  // elements of the vector
    unsigned runs = 5;              // that are timed, after one that is not
    unsigned rank = 0;
    unsigned size = 2;
    unsigned deadline_seconds = 120;  // for others to come, or their next bytes
    [[nodiscard]] std::size_t bytes() const { return count * size_of(dtype); }
};

// Most members.
inline constexpr unsigned kMostMembers = 64;
// Elements that are behind every vector, for ways that cut it into equal parts.
inline constexpr std::size_t kSpareElements = kMostMembers;

// A way to reduce.
class Way {
 public:
    virtual ~Way() = default;
    // The sum of all members' vectors, in place.
    virtual Result<> reduce(std::byte* vector, std::size_t count) = 0;
    // Where the vector should be: room for its elements and the spare ones. Null: no matter where.
    virtual std::byte* place(std::size_t bytes) {
        static_cast<void>(bytes);
        return nullptr;
    }
};

// Runs the work that way, checks every run's sum, and prints what it took: {"seconds": [of each timed run],
// "user", "system": CPU seconds of all of them, "bytes": of the vector}. Before each run all wait for all.
Result<> measure(const Work& work, Way& way);

// Member `rank`'s input: small whole numbers, which every type sums exactly.
void fill(const Work& work, unsigned run, std::byte* vector);
// Whether the vector is the sum of all members' inputs. kInternal: the first element that is not.
Result<> check(const Work& work, unsigned run, const std::byte* vector);

}  // namespace ask::bench
