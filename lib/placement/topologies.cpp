// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/topologies.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

namespace ask::placement {
namespace {

double rate_at(RateScheme scheme, std::uint32_t levels_above_leaves) {
    switch (scheme) {
        case RateScheme::kConstant:
            return 1;
        case RateScheme::kLinear:
            return 1 + static_cast<double>(levels_above_leaves);
        case RateScheme::kExponential:
            return std::ldexp(1, static_cast<int>(levels_above_leaves));
    }
    return 1;
}

Result<> check_count(std::uint32_t n) {
    if (n == 0 || n > kMaxSwitches) {
        return Error(Errc::kInput,
                     std::to_string(n) + " switches; a tree has from 1 to " + std::to_string(kMaxSwitches));
    }
    return {};
}

std::vector<SwitchId> leaves(const TreeSpec& spec) {
    std::vector<bool> has_child(spec.parent.size(), false);
    for (const SwitchId up : spec.parent) {
        if (up != kNoSwitch) {
            has_child[up] = true;
        }
    }
    std::vector<SwitchId> out;
    for (std::size_t id = 0; id < has_child.size(); ++id) {
        if (!has_child[id]) {
            out.push_back(static_cast<SwitchId>(id));
        }
    }
    return out;
}

std::vector<double> power_law_weights(std::uint64_t low, std::uint64_t high, double exponent) {
    std::vector<double> weight;
    for (std::uint64_t x = low; x <= high; ++x) {
        weight.push_back(std::pow(static_cast<double>(x), -exponent));
    }
    return weight;
}

double mean_of(std::uint64_t low, const std::vector<double>& weight) {
    double sum = 0;
    double total = 0;
    for (std::size_t at = 0; at < weight.size(); ++at) {
        sum += weight[at] * static_cast<double>(low + at);
        total += weight[at];
    }
    return sum / total;
}

}  // namespace

std::string_view rate_scheme_name(RateScheme scheme) {
    switch (scheme) {
        case RateScheme::kConstant:
            return "constant";
        case RateScheme::kLinear:
            return "linear";
        case RateScheme::kExponential:
            return "exponential";
    }
    return "unknown";
}

Result<TreeSpec> complete_binary(std::uint32_t n, RateScheme scheme) {
    if (n < 2 || !std::has_single_bit(n)) {
        return Error(Errc::kInput,
                     "BT(" + std::to_string(n) + "): the size must be a power of two from 2 on");
    }
    ASK_TRY(check_count(n - 1), "BT");
    const auto levels = static_cast<std::uint32_t>(std::bit_width(n)) - 1;
    TreeSpec spec;
    spec.load.assign(n - 1, 0);
    for (std::uint32_t id = 0; id < n - 1; ++id) {
        const auto depth = static_cast<std::uint32_t>(std::bit_width(id + 1)) - 1;
        spec.parent.push_back(id == 0 ? kNoSwitch : (id - 1) / 2);
        spec.rate.push_back(rate_at(scheme, levels - 1 - depth));
    }
    return spec;
}

Result<TreeSpec> scale_free(std::uint32_t n, Random& random) {
    ASK_TRY(check_count(n), "SF");
    TreeSpec spec;
    spec.parent.assign(1, kNoSwitch);
    std::vector<SwitchId> ends;  // every switch once per link it has
    for (std::uint32_t id = 1; id < n; ++id) {
        const SwitchId to = ends.empty() ? 0 : ends[random() % ends.size()];
        spec.parent.push_back(to);
        ends.push_back(to);
        ends.push_back(id);
    }
    spec.rate.assign(n, 1);
    spec.load.assign(n, 1);
    return spec;
}

Result<TreeSpec> random_recursive(std::uint32_t n, Random& random) {
    ASK_TRY(check_count(n), "random tree");
    TreeSpec spec;
    for (std::uint32_t id = 0; id < n; ++id) {
        spec.parent.push_back(id == 0 ? kNoSwitch : static_cast<SwitchId>(random() % id));
    }
    spec.rate.assign(n, 1);
    spec.load.assign(n, 0);
    return spec;
}

Result<> uniform_leaf_load(TreeSpec& spec, std::uint64_t low, std::uint64_t high, Random& random) {
    if (low == 0 || low > high) {
        return Error(Errc::kInput, "uniform load: needs 0 < low <= high");
    }
    for (const SwitchId id : leaves(spec)) {
        spec.load[id] = low + random() % (high - low + 1);
    }
    return {};
}

double power_law_exponent(std::uint64_t low, std::uint64_t high, double mean) {
    // The mean falls as the exponent grows.
    double smallest = -64;
    double largest = 64;
    for (int step = 0; step < 100; ++step) {
        const double middle = (smallest + largest) / 2;
        const double got = mean_of(low, power_law_weights(low, high, middle));
        (got > mean ? smallest : largest) = middle;
    }
    return (smallest + largest) / 2;
}

Result<> power_law_leaf_load(TreeSpec& spec, std::uint64_t low, std::uint64_t high, double mean,
                             Random& random) {
    if (low == 0 || low > high || !(mean > static_cast<double>(low) && mean < static_cast<double>(high))) {
        return Error(Errc::kInput, "power-law load: needs 0 < low < mean < high");
    }
    std::vector<double> sum = power_law_weights(low, high, power_law_exponent(low, high, mean));
    for (std::size_t at = 1; at < sum.size(); ++at) {
        sum[at] += sum[at - 1];
    }
    for (const SwitchId id : leaves(spec)) {
        const double draw = std::ldexp(static_cast<double>(random() >> 11), -53) * sum.back();
        const auto at = std::upper_bound(sum.begin(), sum.end() - 1, draw) - sum.begin();
        spec.load[id] = low + static_cast<std::uint64_t>(at);
    }
    return {};
}

}  // namespace ask::placement
