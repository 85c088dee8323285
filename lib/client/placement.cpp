// SPDX-License-Identifier: Apache-2.0
#include "lib/client/placement.h"

#include <algorithm>

namespace ask::client {
namespace {

// How many come to that relay.
std::uint64_t flows_to(const Placement& plan, const std::string& relay) {
    auto flows = static_cast<std::uint64_t>(std::ranges::count(plan.relays, relay, &PlacedRelay::parent));
    for (const PlacedHost& host : plan.hosts) {
        flows += host.entry == relay ? host.sends : 0;
    }
    return flows;
}

// All that came to a relay crosses what its one flow did.
void spread(std::vector<PlacedLink>& links, std::uint64_t flows, std::string from, const std::string& to) {
    for (std::size_t crossed = 0; crossed < links.size() && from != to; ++crossed) {
        const auto link = std::ranges::find(links, from, &PlacedLink::from);
        if (link == links.end()) {
            return;
        }
        link->messages += flows - 1;
        link->bytes = 0;
        from = link->to;
    }
}

}  // namespace

Placement Placement::without(const std::string& relay) const {
    Placement left;
    std::string instead;
    bool known = false;
    for (const PlacedRelay& each : relays) {
        if (each.name == relay) {
            instead = each.parent;
            known = true;
        } else {
            left.relays.push_back(each);
            if (each.parent == relay) {
                left.relays.back().parent = instead;
            }
        }
    }
    left.hosts = hosts;
    for (PlacedHost& host : left.hosts) {
        if (host.entry == relay) {
            host.entry = instead;
        }
    }
    left.links = links;
    if (const std::uint64_t flows = flows_to(*this, relay); known && flows > 0) {
        spread(left.links, flows, relay, instead);
    }
    return left;
}

}  // namespace ask::client
