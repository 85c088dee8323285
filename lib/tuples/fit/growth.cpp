// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/growth.h"

#include <algorithm>
#include <cmath>

namespace ask {

double Growth::rate(double t) const {
    return p * std::pow(1 + t / c, -g);
}

double Growth::distinct(double t) const {
    const double steps = std::log1p(t / c);
    // (e^(s(1-g)) - 1) / (1-g), which is s at g = 1.
    const double rest = 1 - g;
    return p * c * (std::abs(rest) < 1e-9 ? steps : std::expm1(steps * rest) / rest);
}

// With a smaller c the rate falls earlier, to the same end: fewer keys. So c is found by halving an interval.
Growth Growth::fit(const KeyCounts& counts) {
    if (counts.tuples <= 0 || counts.distinct <= 0) {
        return {};
    }
    Growth growth{.p = counts.tuples / counts.all};
    // Half a key tells a rate from none; and no rate rises.
    const double rate = std::min(std::max(counts.once, 0.5) / counts.all, growth.p);
    double low = -200;
    double high = 60;  // powers of two
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        growth.c = std::exp2(middle);
        growth.g = std::log(growth.p / rate) / std::log1p(counts.all / growth.c);
        (growth.distinct(counts.all) < counts.distinct ? low : high) = middle;
    }
    return growth;
}

}  // namespace ask
