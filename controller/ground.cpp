// SPDX-License-Identifier: Apache-2.0
#include "controller/ground.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "lib/topology/load.h"

namespace ask {

Result<placing::Ground> load_ground(const std::string& path) {
    auto topology = topology::load_topology(path);
    ASK_PASS(topology);
    auto model = topology::load_model(*topology);
    ASK_PASS(model);
    auto fabric = topology::Fabric::build(*std::move(topology));
    ASK_PASS(fabric);
    const auto relays = std::ranges::count_if(
        fabric->switches(), [](const topology::Switch& each) { return !each.relay.empty(); });
    const auto& hosts = fabric->topology().hosts;
    const auto addresses =
        std::ranges::count_if(hosts, [](const topology::Host& host) { return host.address.has_value(); });
    spdlog::info("{}: {} switches, {} of them with a relay; {} hosts, {} of them with an address", path,
                 fabric->switches().size(), relays, hosts.size(), addresses);
    if (relays == 0 || addresses == 0) {
        spdlog::warn("{}: no {}: every task goes straight to its receiver", path,
                     relays == 0 ? "switch has a 'relay'" : "host has an 'address'");
    }
    return placing::Ground{.fabric = *std::move(fabric), .model = *std::move(model)};
}

}  // namespace ask
