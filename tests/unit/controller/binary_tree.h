// SPDX-License-Identifier: Apache-2.0
//
// A complete binary tree of switches s0, s1, ... with relays, a host at each of its leaves and a receiver at
// its root.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/control/placing/placing.h"
#include "lib/net/address.h"

namespace ask::test {

// Of the receiver, and of the host at the leaf sN.
inline constexpr std::uint32_t kReceiver = 0xc6120001U;  // 198.18.0.1
[[nodiscard]] inline std::uint32_t leaf_host(std::size_t leaf) {
    return 0xc6120100U + static_cast<std::uint32_t>(leaf);
}

// `capacity` at each switch.
[[nodiscard]] inline topology::Topology binary_tree(std::size_t switches, std::uint32_t capacity) {
    topology::Topology made;
    made.source = "tree";
    made.message.model = placement::SizeModel::constant(1).value();
    for (std::size_t at = 0; at < switches; ++at) {
        topology::Switch each;
        each.name = "s" + std::to_string(at);
        each.parent = at == 0 ? "" : "s" + std::to_string((at - 1) / 2);
        each.relay = format_ipv4(0xc6130000U + static_cast<std::uint32_t>(at)) + ":4793";
        each.capacity = capacity;
        made.switches.push_back(std::move(each));
    }
    for (std::size_t leaf = switches / 2; leaf < switches; ++leaf) {
        topology::Host host;
        host.name = "h" + std::to_string(leaf);
        host.attached_to = "s" + std::to_string(leaf);
        host.address = leaf_host(leaf);
        made.hosts.push_back(std::move(host));
    }
    topology::Host receiver;
    receiver.name = "r";
    receiver.attached_to = "s0";
    receiver.address = kReceiver;
    made.hosts.push_back(std::move(receiver));
    return made;
}

[[nodiscard]] inline placing::Ground ground_of(topology::Topology topology) {
    auto model = *topology.message.model;
    auto fabric = topology::Fabric::build(std::move(topology));
    REQUIRE_MESSAGE(fabric.ok(), fabric.error().text());
    return {.fabric = *std::move(fabric), .model = std::move(model)};
}

}  // namespace ask::test
