// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/key_loss.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ask {

namespace {

// A key that comes after D(t) others finds its aggregator taken with probability q = 1 - exp(-x D(t)/D(T));
// the tuples that come after t and whose keys were not seen before t are (T-t) rate(t). Integrated by parts.
class Integral {
 public:
    Integral(const Growth& growth, double total) {
        const double all = growth.distinct(total);
        const double factor = std::pow(total, 1.0 / kSteps);
        double t = 1;
        for (Step& step : steps_) {
            const double next = t * factor;
            const double middle = std::sqrt(t * next);
            step = {growth.distinct(next) / all, (1 - middle / total) * growth.rate(middle)};
            t = next;
        }
    }
    [[nodiscard]] double at(double x) const {
        double lost = 0;
        double before = 0;  // q
        for (const Step& step : steps_) {
            const double q = -std::expm1(-x * step.keys);
            lost += (q - before) * step.rest;
            before = q;
        }
        return lost;
    }

 private:
    static constexpr int kSteps = 128;
    struct Step {
        double keys = 0;  // D(t)/D(T) at the step's end
        double rest = 0;  // (T-t) rate(t) / T in its middle
    };
    std::array<Step, kSteps> steps_{};
};

}  // namespace

KeyLoss::KeyLoss(const KeyCounts& counts, double total) {
    if (counts.tuples <= 0 || counts.distinct <= 0) {
        return;
    }
    const Growth growth = Growth::fit(counts);
    const double end = std::max({total, counts.all, 2.0});
    share_ = growth.p;
    distinct_ = growth.distinct(end);
    const Integral integral(growth, end);
    for (std::size_t i = 0; i < table_.size(); ++i) {
        const double x = std::exp2(kLeast + static_cast<double>(i) / kPerOctave);
        table_[i] = std::clamp(integral.at(x), 0.0, share_);
    }
}

double KeyLoss::lost(double keys_per_aggregator) const {
    if (keys_per_aggregator <= 0) {
        return 0;
    }
    const double at = (std::log2(keys_per_aggregator) - kLeast) * kPerOctave;
    if (at <= 0) {
        return table_.front() * keys_per_aggregator / std::exp2(kLeast);
    }
    const auto below = std::min(static_cast<std::size_t>(at), table_.size() - 2);
    const double weight = std::min(at - static_cast<double>(below), 1.0);
    return table_[below] + (table_[below + 1] - table_[below]) * weight;
}

}  // namespace ask
