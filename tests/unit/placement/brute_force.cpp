// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/placement/brute_force.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace ask::placement::test {
namespace {

// Parents come earlier in `order` than their children; every tree shape can occur.
std::vector<SwitchId> random_parents(std::mt19937_64& random, std::uint32_t count) {
    std::vector<SwitchId> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<SwitchId> parent(count, kNoSwitch);
    const std::uint32_t reach = random() % 3 == 0 ? 2 : count;  // small reach: deep trees
    for (std::uint32_t at = 1; at < count; ++at) {
        const auto back = static_cast<std::uint32_t>(1 + random() % std::min(at, reach));
        parent[order[at]] = order[at - back];
    }
    return parent;
}

double random_rate(std::mt19937_64& random, bool dyadic) {
    if (dyadic) {
        return std::ldexp(1, static_cast<int>(random() % 7) - 3);
    }
    return 0.1 + static_cast<double>(random() % 100000) / 1000.0;
}

// Messages of each switch towards its parent, children first whatever their indices are.
struct Flow {
    double messages = 0;
    double bytes = 0;
    std::uint64_t servers = 0;
};

Flow flow_above(const SmallTree& small, const std::vector<bool>& blue, SwitchId id, Costs& costs) {
    Flow flow{.messages = static_cast<double>(small.spec.load[id]),
              .bytes = static_cast<double>(small.spec.load[id]) * small.message[1],
              .servers = small.spec.load[id]};
    for (std::size_t child = 0; child < small.spec.parent.size(); ++child) {
        if (small.spec.parent[child] == id) {
            const Flow from = flow_above(small, blue, static_cast<SwitchId>(child), costs);
            flow.messages += from.messages;
            flow.bytes += from.bytes;
            flow.servers += from.servers;
        }
    }
    if (blue[id] && flow.servers > 0) {
        flow.messages = 1;
        flow.bytes = small.message[flow.servers];
    }
    const double busy = flow.messages * (1.0 / small.spec.rate[id]);
    costs.utilisation += busy;
    costs.bottleneck = std::max(costs.bottleneck, busy);
    costs.bytes += flow.bytes;
    return flow;
}

}  // namespace

SmallTree random_small_tree(std::mt19937_64& random, std::uint32_t max_switches, bool dyadic) {
    const auto count = static_cast<std::uint32_t>(1 + random() % max_switches);
    SmallTree small;
    small.spec.parent = random_parents(random, count);
    const std::uint64_t most = 1 + random() % 9;
    const bool leaves_only = random() % 4 == 0;
    for (std::uint32_t id = 0; id < count; ++id) {
        small.spec.rate.push_back(random_rate(random, dyadic));
        const bool leaf =
            std::find(small.spec.parent.begin(), small.spec.parent.end(), id) == small.spec.parent.end();
        const bool idle = (leaves_only && !leaf) || random() % 3 == 0;
        small.spec.load.push_back(idle ? 0 : 1 + random() % most);
        small.spec.available.push_back(random() % 4 == 0 ? 0 : 1);
    }
    const std::uint64_t total =
        std::accumulate(small.spec.load.begin(), small.spec.load.end(), std::uint64_t{0});
    small.message.assign(2, 0);
    small.message[1] = static_cast<double>(1 + random() % 20);
    for (std::uint64_t servers = 2; servers <= total; ++servers) {
        const double growth =
            dyadic ? static_cast<double>(random() % 4) : static_cast<double>(random() % 1000) / 300.0;
        small.message.push_back(small.message.back() + growth);
    }
    return small;
}

Costs cost_of(const SmallTree& small, const std::vector<bool>& blue) {
    const auto root = std::find(small.spec.parent.begin(), small.spec.parent.end(), kNoSwitch);
    Costs costs;
    flow_above(small, blue, static_cast<SwitchId>(root - small.spec.parent.begin()), costs);
    return costs;
}

Optimum brute_force(const SmallTree& small) {
    const std::size_t count = small.spec.parent.size();
    const double none = std::numeric_limits<double>::infinity();
    Optimum best;
    for (auto* curve : {&best.utilisation, &best.bottleneck, &best.bytes}) {
        curve->assign(count + 1, none);
    }
    std::vector<bool> blue(count);
    for (std::uint32_t set = 0; set < (1U << count); ++set) {
        bool allowed = true;
        for (std::size_t id = 0; id < count; ++id) {
            blue[id] = (set >> id & 1U) != 0;
            allowed = allowed && (!blue[id] || small.spec.available[id] != 0);
        }
        if (!allowed) {
            continue;
        }
        const Costs costs = cost_of(small, blue);
        const auto used = static_cast<std::size_t>(std::popcount(set));
        best.utilisation[used] = std::min(best.utilisation[used], costs.utilisation);
        best.bottleneck[used] = std::min(best.bottleneck[used], costs.bottleneck);
        best.bytes[used] = std::min(best.bytes[used], costs.bytes);
    }
    for (std::size_t i = 1; i <= count; ++i) {  // at most i, not exactly i
        best.utilisation[i] = std::min(best.utilisation[i], best.utilisation[i - 1]);
        best.bottleneck[i] = std::min(best.bottleneck[i], best.bottleneck[i - 1]);
        best.bytes[i] = std::min(best.bytes[i], best.bytes[i - 1]);
    }
    return best;
}

}  // namespace ask::placement::test
