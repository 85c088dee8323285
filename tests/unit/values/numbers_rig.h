// SPDX-License-Identifier: Apache-2.0
//
// Members' vectors by way of lanes, as members, switches and collector take them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "lib/values/numbers.h"

namespace ask::values {

inline GroupTerms terms_of(std::size_t members) {
    GroupTerms terms;
    terms.seats.resize(members);
    return terms;
}

// One chunk of `members` vectors.
class Reduction {
 public:
    Reduction(Dtype dtype, Operator op, Width width, std::size_t members, std::size_t count)
        : operation_{.number = 1, .dtype = dtype, .op = op, .width = width, .count = count},
          layout_(lay_out(operation_, terms_of(members))) {
        REQUIRE(layout_.chunks == 1);
    }

    [[nodiscard]] const Layout& layout() const { return layout_; }
    [[nodiscard]] Scale scale() const { return scale_; }

    template <typename T>
    void agree(const std::vector<std::vector<T>>& vectors) {
        std::vector<std::byte> sum;
        for (const auto& vector : vectors) {
            const Exponents found = exponents_of(layout_, std::as_bytes(std::span(vector)));
            std::vector<std::byte> part(sizeof(found));
            std::memcpy(part.data(), &found, sizeof(found));
            if (sum.empty()) {
                sum = part;
            } else {
                fold(ASK_VALUES_MAX32, sum, part);
            }
        }
        Exponents agreed;
        std::memcpy(&agreed, sum.data(), sizeof(agreed));
        scale_ = scale_of(layout_, agreed);
    }

    template <typename T>
    std::vector<std::byte> encoded(const std::vector<T>& vector) const {
        std::vector<std::byte> out(layout_.blocks_of(0, scale_.raw) * std::size_t{ASK_VALUES_BLOCK_BYTES},
                                   std::byte{0xee});
        CHECK(encode(layout_, scale_, std::as_bytes(std::span(vector)), out));
        return out;
    }

    template <typename T>
    std::vector<T> decoded(const std::vector<std::byte>& lanes) const {
        std::vector<T> out(layout_.count);
        decode(layout_, scale_, lanes, std::as_writable_bytes(std::span(out)));
        return out;
    }

    // Folds in the order of `order`, or raw in that of ranks.
    template <typename T>
    std::vector<std::byte> folded(const std::vector<std::vector<T>>& vectors,
                                  const std::vector<std::size_t>& order) const {
        std::vector<std::byte> sum;
        for (std::size_t at = 0; at < order.size(); ++at) {
            const std::vector<std::byte> part = encoded(vectors[scale_.raw ? at : order[at]]);
            if (at == 0) {
                sum = part;
            } else if (scale_.raw) {
                REQUIRE(fold_raw(operation_.dtype, operation_.op, sum, part));
            } else {
                fold(layout_.lane_op, sum, part);
            }
        }
        return sum;
    }

    template <typename T>
    std::vector<T> reduce(const std::vector<std::vector<T>>& vectors) {
        agree(vectors);
        std::vector<std::size_t> order(vectors.size());
        std::iota(order.begin(), order.end(), 0);
        return decoded<T>(folded(vectors, order));
    }

 private:
    Operation operation_;
    Layout layout_;
    Scale scale_;
};

}  // namespace ask::values
