// SPDX-License-Identifier: Apache-2.0
//
// The result of a task of means: of each key its sum and its count, which came by keys of their own
// (lib/client/mean.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/mean.h"
#include "lib/client/result_map.h"

namespace ask::client {

struct Mean {
    std::string_view key;  // borrowed from the result
    std::int64_t sum = 0;
    std::int64_t count = 1;
};

// Whether a's mean is larger, exactly.
[[nodiscard]] bool larger(const Mean& a, const Mean& b);

class Means {
 public:
    // Takes what is in the result; 64 bytes of memory a key, and time, in which it calls `pulse` now and
    // then. kInternal: a key has a sum and no count, or the other way round, or one below 1.
    [[nodiscard]] static Result<Means> of(
        const ResultMap& result, const std::function<void()>& pulse = [] {});

    [[nodiscard]] std::size_t size() const { return parts_.size() / 2; }
    [[nodiscard]] Mean operator[](std::size_t i) const;
    // Which come first, by the keys' bytes, or the largest means and of equal ones by key; no more than
    // `most`.
    [[nodiscard]] std::vector<std::size_t> in_order(
        ResultMap::Order order, std::uint64_t most, const std::function<void()>& pulse = [] {}) const;

 private:
    struct Part {
        MeanKey of;
        std::int64_t value = 0;
    };
    explicit Means(std::vector<Part> parts) : parts_(std::move(parts)) {}

    std::vector<Part> parts_;  // each key's sum, and behind it its count, by the keys' bytes
};

}  // namespace ask::client
