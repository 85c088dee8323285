// SPDX-License-Identifier: Apache-2.0
#include "lib/client/placement.h"

#include <algorithm>
#include <map>

namespace ask::client {

Placement Placement::without(const std::string& relay) const {
    std::map<std::string, std::string> instead;  // of those that go
    Placement left;
    for (const PlacedRelay& each : relays) {
        const auto parent_goes = instead.find(each.parent);
        if (each.name == relay) {
            instead[each.name] = each.parent;
        } else if (parent_goes != instead.end()) {
            instead[each.name] = parent_goes->second;
        } else {
            left.relays.push_back(each);
        }
    }
    for (PlacedHost host : hosts) {
        if (const auto goes = instead.find(host.entry); goes != instead.end()) {
            host.entry = goes->second;
        }
        left.hosts.push_back(std::move(host));
    }
    return left;
}

}  // namespace ask::client
