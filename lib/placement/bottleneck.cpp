// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/bottleneck.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "lib/placement/layout.h"
#include "lib/placement/tables.h"

namespace ask::placement {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

std::vector<std::uint8_t> all_available(const Tree& tree) {
    std::vector<std::uint8_t> candidate(tree.size());
    for (std::size_t at = 0; at < tree.size(); ++at) {
        const auto id = static_cast<SwitchId>(at);
        candidate[at] = tree.available(id) && tree.subtree_load(id) >= 2 ? 1 : 0;
    }
    return candidate;
}

// Answers "can every link stay within `limit`?" for one problem and budget.
class LimitCheck {
 public:
    LimitCheck(const Problem& problem, std::uint32_t k)
        : problem_(problem), layout_(make_layout(problem.tree, k, all_available(problem.tree))) {
        sums_.resize(problem.tree.size());
        least_.resize(problem.tree.size());
    }

    // The blue switches of a placement within the limit, as few as possible, or nothing.
    std::optional<std::vector<SwitchId>> meet(double limit) {
        const auto order = problem_.tree.top_down();
        for (std::size_t at = order.size(); at-- > 0;) {
            fill(order[at], limit);
        }
        const auto& top = least_[problem_.tree.root()];
        for (std::uint32_t i = 0; i < top.size(); ++i) {
            if (top[i] != kImpossible) {
                return trace(i);
            }
        }
        return std::nullopt;
    }

 private:
    // least_[v][i]: least weight on the link above v with at most i blue switches in its subtree, kImpossible
    // if some link in it or the one above cannot stay within the limit.
    void fill(SwitchId id, double limit) {
        auto& sums = sums_[id];
        sums.assign(1, {problem_.raw * static_cast<double>(problem_.tree.load(id))});
        for (const SwitchId child : problem_.tree.children(id)) {
            const auto columns = std::min<std::size_t>(layout_.inner[id] + std::size_t{1},
                                                       sums.back().size() + least_[child].size() - 1);
            std::vector<double> next(columns);
            min_plus(sums.back(), least_[child], next, {});
            sums.push_back(std::move(next));
        }
        auto& least = least_[id];
        least.assign(layout_.budget[id] + std::size_t{1}, kImpossible);
        for (std::uint32_t i = 0; i < least.size(); ++i) {
            double weight = red(id, i);
            if (layout_.candidate[id] != 0 && i > 0 && blue_possible(id, i)) {
                weight = std::min(weight, problem_.emitted[id]);
            }
            least[i] = weight * problem_.length[id] <= limit ? weight : kImpossible;
        }
    }

    [[nodiscard]] double red(SwitchId id, std::uint32_t i) const {
        const auto& sum = sums_[id].back();
        return sum[std::min<std::size_t>(i, sum.size() - 1)];
    }
    [[nodiscard]] bool blue_possible(SwitchId id, std::uint32_t i) const {
        return red(id, i - 1) != kImpossible;
    }

    [[nodiscard]] std::vector<SwitchId> trace(std::uint32_t budget) const {
        struct Visit {
            SwitchId id;
            std::uint32_t budget;
        };
        std::vector<SwitchId> blue;
        std::vector<Visit> open{{problem_.tree.root(), budget}};
        while (!open.empty()) {
            auto [id, i] = open.back();
            open.pop_back();
            i = std::min(i, layout_.budget[id]);
            if (least_[id][i] != red(id, i)) {
                blue.push_back(id);
                --i;
            }
            const auto children = problem_.tree.children(id);
            for (std::size_t at = children.size(); at-- > 0;) {
                i = std::min<std::uint32_t>(i, static_cast<std::uint32_t>(sums_[id][at + 1].size() - 1));
                const std::uint32_t share = split_of(sums_[id][at], least_[children[at]], i);
                open.push_back({children[at], share});
                i -= share;
            }
        }
        std::sort(blue.begin(), blue.end());
        return blue;
    }

    const Problem& problem_;
    Layout layout_;
    std::vector<std::vector<std::vector<double>>> sums_;  // per switch: own load, then with each child added
    std::vector<std::vector<double>> least_;
};

// Non-negative doubles in their order are their bit patterns in theirs.
double between(double low, double high) {
    const auto a = std::bit_cast<std::uint64_t>(low);
    const auto b = std::bit_cast<std::uint64_t>(high);
    return std::bit_cast<double>(a + (b - a) / 2);
}

}  // namespace

BottleneckPlacement minimise_bottleneck(const Problem& problem, std::uint32_t k) {
    LimitCheck check(problem, k);
    BottleneckPlacement best{.blue = {}, .largest = evaluate(problem, {}).largest};
    double impossible = 0;
    if (auto blue = check.meet(0)) {
        best.blue = std::move(*blue);
        best.largest = 0;
        return best;
    }
    // The next candidate below the best is usually far below it; a found placement's own value is what
    // counts.
    while (std::nextafter(impossible, kImpossible) < best.largest) {
        const double limit = between(impossible, best.largest);
        if (auto blue = check.meet(limit)) {
            best.largest = evaluate(problem, *blue).largest;
            best.blue = std::move(*blue);
        } else {
            impossible = limit;
        }
    }
    return best;
}

}  // namespace ask::placement
