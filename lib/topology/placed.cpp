// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/placed.h"

#include <algorithm>
#include <limits>

#include <google/protobuf/util/json_util.h>

#include "lib/net/host_book.h"

namespace ask::topology {
namespace {

using placement::kNoSwitch;
using placement::SwitchId;

// The nearest switch from there on, itself included, that aggregates anything; kNoSwitch: none.
std::vector<SwitchId> nearest_blue(const placement::Tree& tree, std::span<const SwitchId> blue) {
    std::vector<SwitchId> nearest(tree.size(), kNoSwitch);
    for (const SwitchId id : tree.top_down()) {
        const SwitchId up = tree.parent(id);
        const bool own = tree.subtree_load(id) > 0 && std::ranges::binary_search(blue, id);
        nearest[id] = own ? id : up == kNoSwitch ? kNoSwitch : nearest[up];
    }
    return nearest;
}

void add_relays(const Planned& planned, const std::vector<SwitchId>& nearest, v1::Placement& message) {
    const std::vector<Switch>& switches = planned.fabric->switches();
    for (const SwitchId id : planned.tree->top_down()) {
        if (nearest[id] != id) {
            continue;
        }
        v1::PlacedRelay& relay = *message.add_relays();
        relay.set_name(switches[id].name);
        relay.set_address(switches[id].relay);
        relay.set_control(switches[id].control);
        const SwitchId up = planned.tree->parent(id);
        if (up != kNoSwitch && nearest[up] != kNoSwitch) {
            relay.set_parent(switches[nearest[up]].name);
        }
    }
}

void add_links(const Planned& planned, v1::Placement& message) {
    const placement::Tree& tree = *planned.tree;
    const std::vector<Switch>& switches = planned.fabric->switches();
    const auto messages = evaluate(make_problem(tree, placement::Objective::kUtilisation), planned.blue);
    const auto bytes =
        planned.model == nullptr
            ? placement::Cost{}
            : evaluate(make_problem(tree, placement::Objective::kBytes, *planned.model), planned.blue);
    for (const SwitchId id : tree.top_down()) {
        if (messages.weight[id] == 0) {
            continue;
        }
        const SwitchId up = tree.parent(id);
        v1::PlacedLink& link = *message.add_links();
        link.set_from(switches[id].name);
        link.set_to(up == kNoSwitch ? planned.destination : switches[up].name);
        link.set_messages(static_cast<std::uint64_t>(messages.weight[id]));
        link.set_bytes(bytes.weight.empty() ? 0 : bytes.weight[id]);
    }
}

}  // namespace

v1::Placement placed_message(const Planned& planned, std::span<const PlacedSender> senders) {
    v1::Placement message;
    message.set_objective(std::string(objective_name(planned.objective)));
    const auto nearest = nearest_blue(*planned.tree, planned.blue);
    add_relays(planned, nearest, message);
    for (const PlacedSender& sender : senders) {
        v1::PlacedHost& host = *message.add_hosts();
        host.set_name(sender.name);
        host.set_address(format_host(sender.address));
        host.set_sends(sender.sends);
        if (!sender.at) {
            continue;
        }
        const std::vector<Switch>& switches = planned.fabric->switches();
        host.set_at(switches[*sender.at].name);
        if (nearest[*sender.at] != kNoSwitch) {
            host.set_entry(switches[nearest[*sender.at]].name);
        }
    }
    add_links(planned, message);
    return message;
}

Result<v1::Placement> placed_message(const Planned& planned, const Network& network) {
    const std::vector<Switch>& switches = planned.fabric->switches();
    for (const SwitchId id : planned.blue) {
        if (switches[id].relay.empty()) {
            return Error(Errc::kInput, "switch '" + switches[id].name + "' has no 'relay'");
        }
    }
    for (const Switch& each : switches) {
        if (each.load > 0) {
            return Error(Errc::kInput,
                         "switch '" + each.name + "' has a 'load' of servers that are no hosts");
        }
    }
    std::vector<PlacedSender> senders;
    for (const Host* const host : network.senders) {
        if (!host->address) {
            return Error(Errc::kInput, "host '" + host->name + "' has no 'address'");
        }
        if (host->load > std::numeric_limits<std::uint32_t>::max()) {
            return Error(Errc::kInput, "host '" + host->name + "' sends more than a placement can say");
        }
        senders.push_back({.name = host->name,
                           .address = *host->address,
                           .sends = static_cast<std::uint32_t>(host->load),
                           .at = planned.fabric->switch_of(*host)});
    }
    return placed_message(planned, senders);
}

std::string placed_json(const v1::Placement& placement) {
    google::protobuf::util::JsonPrintOptions options;
    options.always_print_primitive_fields = true;
    std::string text;
    // Fails for messages of types that nobody knows, only.
    (void)google::protobuf::util::MessageToJsonString(placement, &text, options);
    return text;
}

}  // namespace ask::topology
