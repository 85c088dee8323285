// SPDX-License-Identifier: Apache-2.0
//
// What every way of tools/bench allreduce works on: vectors whose sum is known, and what it took to get it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace ask::bench {

enum class Dtype : std::uint8_t { kInt32, kInt64, kFloat32, kFloat64 };

[[nodiscard]] std::size_t size_of(Dtype dtype);

// into[i] += from[i] for whole elements.
void add(Dtype dtype, std::byte* into, const std::byte* from, std::size_t bytes);

// Most members.
inline constexpr unsigned kMostMembers = 64;
// Elements that are behind every vector, for ways that cut it into equal parts; and of a short operation.
inline constexpr std::size_t kSpareElements = kMostMembers;

// What all members do, in this order: long sums, of which the first is not timed, a short one before each, so
// that all wait for all, and one behind them; then short ones, and then barriers.
struct Work {
    Dtype dtype = Dtype::kInt32;
    std::size_t count = 1U << 20U;  // elements of the vector
    unsigned runs = 5;
    unsigned shorts = 200;  // and as many barriers
    unsigned rank = 0;
    unsigned size = 2;
    unsigned deadline_seconds = 120;  // for others to come, or their next bytes
    unsigned late_rank = 0;           // comes so much later to each long sum
    unsigned late_ms = 0;
    [[nodiscard]] std::size_t bytes() const { return count * size_of(dtype); }
    // Bytes of the vector and of a short operation, each from a cache line's beginning on.
    [[nodiscard]] std::size_t short_at() const {
        return ((count + kSpareElements) * size_of(dtype) + 63) / 64 * 64;
    }
    [[nodiscard]] std::size_t room() const { return short_at() + 2 * kSpareElements * size_of(dtype); }
    // As a server of sums sees them: a barrier is a short sum there.
    [[nodiscard]] unsigned long_operations() const { return 2 * (runs + 1) + 1; }
    [[nodiscard]] unsigned operations() const { return long_operations() + 2 * shorts; }
    [[nodiscard]] std::size_t count_of(unsigned operation) const {
        return operation < long_operations() && operation % 2 == 1 ? count : kSpareElements;
    }
};

// A way to reduce.
class Way {
 public:
    virtual ~Way() = default;
    // The sum of all members' vectors; returns where it is, which may be where the vector was.
    virtual Result<const std::byte*> reduce(std::byte* vector, std::size_t count) = 0;
    // Returns once all members have called it. `few` is room for a short operation.
    virtual Result<> barrier(std::byte* few) {
        ASK_PASS(reduce(few, kSpareElements));
        return {};
    }
    // Memory for all that reduce() is called with. Null: no matter where.
    virtual std::byte* place(std::size_t bytes) {
        static_cast<void>(bytes);
        return nullptr;
    }
    // Once all is done.
    virtual Result<> leave() { return {}; }
    // For people: which way it is, if that is not said yet.
    [[nodiscard]] virtual std::string note() const { return {}; }
};

// Runs the work that way, checks every long sum, and returns as JSON what it took: {"seconds": [of each timed
// run], "short": [seconds], "barrier": [seconds], "user", "system": this process's CPU seconds in the timed
// runs, "machine": all processors', "bytes": of the vector, "link": what of the timed runs went over eth0,
// "note"}.
Result<std::string> measure(const Work& work, Way& way);

// Member `rank`'s input: small whole numbers, which every type sums exactly.
void fill(const Work& work, unsigned run, std::byte* vector);
// Whether the vector is the sum of all members' inputs. kInternal: the first element that is not.
Result<> check(const Work& work, unsigned run, const std::byte* vector);

}  // namespace ask::bench
