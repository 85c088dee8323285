// SPDX-License-Identifier: Apache-2.0
#include "lib/client/means.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "lib/text/escape.h"

namespace ask::client {
namespace {

__extension__ using Product = __int128;

constexpr std::uint64_t kPulseEvery = 1U << 20U;

// What is called so often, and wants to be heard now and then.
class Pulse {
 public:
    explicit Pulse(const std::function<void()>& pulse) : pulse_(pulse) {}
    void step() {
        if (++steps_ % kPulseEvery == 0) {
            pulse_();
        }
    }

 private:
    const std::function<void()>& pulse_;
    std::uint64_t steps_ = 0;
};

}  // namespace

bool larger(const Mean& a, const Mean& b) {
    return Product{a.sum} * b.count > Product{b.sum} * a.count;
}

Result<Means> Means::of(const ResultMap& result, const std::function<void()>& pulse) {
    Pulse now_and_then(pulse);
    std::vector<Part> parts;
    ASK_PASS(result.each([&](std::string_view key, std::int64_t value) {
        now_and_then.step();
        parts.push_back({mean_key(key), value});
    }));
    if (parts.size() != result.size()) {
        return Error(Errc::kInput, "result table: " + std::to_string(parts.size()) + " keys instead of " +
                                       std::to_string(result.size()) + "; the table is damaged");
    }
    std::ranges::sort(parts, [&](const Part& a, const Part& b) {
        now_and_then.step();
        return a.of.key != b.of.key ? a.of.key < b.of.key : a.of.part < b.of.part;
    });
    for (std::size_t i = 0; i < parts.size(); i += 2) {
        const Part& sum = parts[i];
        const bool paired = i + 1 < parts.size() && sum.of.part == MeanPart::kSum &&
                            parts[i + 1].of.part == MeanPart::kCount && parts[i + 1].of.key == sum.of.key &&
                            parts[i + 1].value > 0;
        if (!paired) {
            return Error(Errc::kInternal, "key " + shown(sum.of.key) +
                                              " has a sum and no count, or a count and no sum: something has "
                                              "sent to this task of means that does not know them");
        }
    }
    return Means(std::move(parts));
}

Mean Means::operator[](std::size_t i) const {
    return {parts_[2 * i].of.key, parts_[2 * i].value, parts_[2 * i + 1].value};
}

std::vector<std::size_t> Means::in_order(ResultMap::Order order, std::uint64_t most,
                                         const std::function<void()>& pulse) const {
    Pulse now_and_then(pulse);
    std::vector<std::size_t> which(size());
    std::iota(which.begin(), which.end(), std::size_t{0});
    const std::size_t kept = std::min<std::uint64_t>(most, size());
    if (order == ResultMap::Order::kValue) {
        std::ranges::partial_sort(which, which.begin() + static_cast<std::ptrdiff_t>(kept),
                                  [&](std::size_t a, std::size_t b) {
                                      now_and_then.step();
                                      const Mean left = (*this)[a];
                                      const Mean right = (*this)[b];
                                      return larger(left, right) || (!larger(right, left) && a < b);
                                  });
    }
    which.resize(kept);
    return which;
}

}  // namespace ask::client
