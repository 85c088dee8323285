// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/network.h"

#include <unordered_set>
#include <utility>

#include "lib/topology/document.h"

namespace ask::topology {
namespace {

using placement::TreeSpec;

Error unknown_host(const Topology& topology, const char* what, const std::string& name) {
    return {Errc::kUnknown, topology.source + ":" + std::to_string(topology.task.line) + ": " + what + " '" +
                                name + "' is no host of this topology"};
}

Result<std::vector<const Host*>> find_senders(const Fabric& fabric) {
    const Topology& topology = fabric.topology();
    const Task& task = topology.task;
    std::vector<const Host*> senders;
    if (!task.senders) {
        for (const Host& host : topology.hosts) {
            if (host.name != task.receiver) {
                senders.push_back(&host);
            }
        }
        return senders;
    }
    std::unordered_set<const Host*> named;
    for (const std::string& name : *task.senders) {
        const Host* const host = fabric.find_host(name);
        if (host == nullptr) {
            return unknown_host(topology, "sender", name);
        }
        if (name == task.receiver || !named.insert(host).second) {
            return at_line(
                topology.source, task.line,
                "sender '" + name + "' is " + (name == task.receiver ? "the receiver too" : "given twice"));
        }
    }
    for (const Host& host : topology.hosts) {
        if (named.contains(&host)) {
            senders.push_back(&host);
        }
    }
    return senders;
}

Result<> load_senders(const Fabric& fabric, const std::vector<const Host*>& senders, TreeSpec& spec) {
    for (const Host* const host : senders) {
        std::uint64_t& load = spec.load[fabric.switch_of(*host)];
        if (host->load > placement::kMaxTotalLoad - load) {
            return at_line(fabric.topology().source, host->line,
                           "host '" + host->name + "': its load brings switch '" + host->attached_to +
                               "' above " + std::to_string(placement::kMaxTotalLoad));
        }
        load += host->load;
    }
    return {};
}

}  // namespace

Result<Network> build_network(const Fabric& fabric) {
    const Topology& topology = fabric.topology();
    const std::string& receiver = topology.task.receiver;
    const Host* const destination = receiver.empty() ? nullptr : fabric.find_host(receiver);
    if (!receiver.empty() && destination == nullptr) {
        return unknown_host(topology, "receiver", receiver);
    }
    auto senders = find_senders(fabric);
    ASK_PASS(senders);
    TreeSpec spec = fabric.rooted_at(destination);
    ASK_PASS(load_senders(fabric, *senders, spec));
    auto tree = placement::Tree::build(std::move(spec));
    ASK_TRY(tree, topology.source);
    std::erase_if(*senders, [](const Host* host) { return host->load == 0; });
    Network network{.tree = std::move(*tree),
                    .name = {},
                    .destination = destination == nullptr ? kDestination : receiver,
                    .senders = std::move(*senders)};
    for (const Switch& each : topology.switches) {
        network.name.push_back(each.name);
    }
    return network;
}

}  // namespace ask::topology
