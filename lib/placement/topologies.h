// SPDX-License-Identifier: Apache-2.0
//
// The trees, rates and loads of SOAR's evaluation (section 5, appendices A and B), made from seeds.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/tree.h"

namespace ask::placement {

using Random = std::mt19937_64;

enum class RateScheme : std::uint8_t {
    kConstant,     // 1 everywhere
    kLinear,       // 1 on the links above the deepest switches, one more per level towards the root
    kExponential,  // likewise, doubling per level
};

[[nodiscard]] std::string_view rate_scheme_name(RateScheme scheme);

// BT(n): the complete binary tree of n - 1 switches; the n-th node is the destination. kInput unless n is a
// power of two of at least 2. Switch v has the children 2v + 1 and 2v + 2. No loads yet.
Result<TreeSpec> complete_binary(std::uint32_t n, RateScheme scheme);

// SF(n): random preferential attachment (Barabasi and Albert). Every new switch gets a link to an earlier one
// picked with probability proportional to its degree. n switches, root 0, rates 1, a load of 1 at every
// switch. kInput for n = 0.
Result<TreeSpec> scale_free(std::uint32_t n, Random& random);

// A random recursive tree: every new switch picks its parent uniformly. n switches, rates 1, no loads.
Result<TreeSpec> random_recursive(std::uint32_t n, Random& random);

// Sets the load of every leaf: uniform in [low, high], or a power law in [low, high] with this mean (the
// exponent follows from the mean). kInput unless 0 < low <= high and, for the power law, low < mean < high.
Result<> uniform_leaf_load(TreeSpec& spec, std::uint64_t low, std::uint64_t high, Random& random);
Result<> power_law_leaf_load(TreeSpec& spec, std::uint64_t low, std::uint64_t high, double mean,
                             Random& random);

// The exponent a for which P(x) ~ x^-a on low..high has this mean.
[[nodiscard]] double power_law_exponent(std::uint64_t low, std::uint64_t high, double mean);

}  // namespace ask::placement
