// SPDX-License-Identifier: Apache-2.0
#include "lib/client/placement.h"

namespace ask::client {

Placement Placement::without(const std::string& relay) const {
    Placement left;
    std::string instead;
    for (const PlacedRelay& each : relays) {
        if (each.name == relay) {
            instead = each.parent;
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
    return left;
}

}  // namespace ask::client
