// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/network.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace ask::plan {
namespace {

using placement::kNoSwitch;
using placement::SwitchId;
using placement::TreeSpec;

// Builds the parts of a Network one after the other; each step fails with the line it is about.
class NetworkBuilder {
 public:
    explicit NetworkBuilder(const Topology& topology) : topology_(topology) {
        for (std::size_t at = 0; at < topology.switches.size(); ++at) {
            switch_id_.emplace(topology.switches[at].name, static_cast<SwitchId>(at));
        }
        for (std::size_t at = 0; at < topology.hosts.size(); ++at) {
            host_index_.emplace(topology.hosts[at].name, at);
        }
    }

    Result<Network> build() {
        for (auto step : {&NetworkBuilder::link_switches, &NetworkBuilder::check_roots,
                          &NetworkBuilder::check_cycles, &NetworkBuilder::check_hosts,
                          &NetworkBuilder::load_senders, &NetworkBuilder::root_at_receiver}) {
            if (auto done = (this->*step)(); !done.ok()) {
                return std::move(done).error();
            }
        }
        auto tree = placement::Tree::build(std::move(spec_));
        if (!tree.ok()) {
            return std::move(tree).error().with_context(topology_.source);
        }
        Network network{.tree = std::move(*tree), .name = {}, .destination = "destination"};
        for (const Switch& each : topology_.switches) {
            network.name.push_back(each.name);
        }
        if (!topology_.task.receiver.empty()) {
            network.destination = topology_.task.receiver;
        }
        return network;
    }

 private:
    [[nodiscard]] Error wrong(std::uint32_t line, const std::string& text) const {
        return at_line(topology_.source, line, text);
    }
    [[nodiscard]] Error unknown_host(const char* what, const std::string& name) const {
        return {Errc::kUnknown, topology_.source + ":" + std::to_string(topology_.task.line) + ": " + what +
                                    " '" + name + "' is no host of this topology"};
    }

    Result<> link_switches() {
        for (const Switch& each : topology_.switches) {
            SwitchId parent = kNoSwitch;
            if (!each.parent.empty()) {
                const auto found = switch_id_.find(each.parent);
                if (found == switch_id_.end()) {
                    return wrong(each.line, "switch '" + each.name + "': its parent '" + each.parent +
                                                "' is no switch of this topology");
                }
                parent = found->second;
            }
            spec_.parent.push_back(parent);
            spec_.rate.push_back(each.rate);
            spec_.load.push_back(each.load);
            spec_.available.push_back(each.available ? 1 : 0);
        }
        return {};
    }

    Result<> check_roots() {
        const Switch* root = nullptr;
        for (const Switch& each : topology_.switches) {
            if (!each.parent.empty()) {
                continue;
            }
            if (root != nullptr) {
                return wrong(each.line, "switch '" + each.name + "' has no parent, and neither has '" +
                                            root->name + "' (line " + std::to_string(root->line) +
                                            "): two roots; give one of them a parent");
            }
            root = &each;
        }
        return {};
    }

    // Follows parents from every switch; a walk that meets itself has found a cycle.
    Result<> check_cycles() {
        const std::size_t count = spec_.parent.size();
        std::vector<std::size_t> walk_of(count, count);  // count: not yet visited
        for (std::size_t start = 0; start < count; ++start) {
            SwitchId at = static_cast<SwitchId>(start);
            while (at != kNoSwitch && walk_of[at] == count) {
                walk_of[at] = start;
                at = spec_.parent[at];
            }
            if (at != kNoSwitch && walk_of[at] == start) {
                return wrong(topology_.switches[at].line, describe_cycle(at));
            }
        }
        return {};
    }

    [[nodiscard]] std::string describe_cycle(SwitchId first) const {
        constexpr int kMostNames = 8;
        std::string text = "switch '" + topology_.switches[first].name + "' is its own ancestor, a cycle: ";
        SwitchId at = first;
        for (int names = 0; names < kMostNames; ++names) {
            text += topology_.switches[at].name + " -> ";
            at = spec_.parent[at];
            if (at == first) {
                return text + topology_.switches[first].name;
            }
        }
        return text + "...";
    }

    Result<> check_hosts() {
        for (const Host& host : topology_.hosts) {
            if (!switch_id_.contains(host.attached_to)) {
                return wrong(host.line, "host '" + host.name + "': '" + host.attached_to +
                                            "' is no switch of this topology");
            }
        }
        const std::string& receiver = topology_.task.receiver;
        if (!receiver.empty() && !host_index_.contains(receiver)) {
            return unknown_host("receiver", receiver);
        }
        return {};
    }

    Result<> add_sender(const Host& host) {
        std::uint64_t& load = spec_.load[switch_id_.at(host.attached_to)];
        if (host.load > placement::kMaxTotalLoad - load) {
            return wrong(host.line, "host '" + host.name + "': its load brings switch '" + host.attached_to +
                                        "' above " + std::to_string(placement::kMaxTotalLoad));
        }
        load += host.load;
        return {};
    }

    Result<> load_senders() {
        const Task& task = topology_.task;
        std::vector<bool> sends(topology_.hosts.size(), !task.senders.has_value());
        for (const std::string& name : task.senders.value_or(std::vector<std::string>{})) {
            const auto found = host_index_.find(name);
            if (found == host_index_.end()) {
                return unknown_host("sender", name);
            }
            if (name == task.receiver || sends[found->second]) {
                return wrong(task.line, "sender '" + name + "' is " +
                                            (name == task.receiver ? "the receiver too" : "given twice"));
            }
            sends[found->second] = true;
        }
        for (std::size_t at = 0; at < topology_.hosts.size(); ++at) {
            if (!sends[at] || topology_.hosts[at].name == task.receiver) {
                continue;
            }
            if (auto added = add_sender(topology_.hosts[at]); !added.ok()) {
                return added;
            }
        }
        return {};
    }

    // Turns the links on the way from the receiver's switch to the root around. A rate belongs to its link,
    // and in the spec to the switch below it.
    Result<> root_at_receiver() {
        if (topology_.task.receiver.empty()) {
            return {};
        }
        const Host& receiver = topology_.hosts[host_index_.at(topology_.task.receiver)];
        SwitchId at = switch_id_.at(receiver.attached_to);
        SwitchId above = kNoSwitch;
        double rate = receiver.rate;
        while (at != kNoSwitch) {
            above = std::exchange(spec_.parent[at], above);
            rate = std::exchange(spec_.rate[at], rate);
            std::swap(at, above);
        }
        return {};
    }

    const Topology& topology_;
    std::unordered_map<std::string, SwitchId> switch_id_;
    std::unordered_map<std::string, std::size_t> host_index_;
    TreeSpec spec_;
};

}  // namespace

Result<Network> build_network(const Topology& topology) {
    return NetworkBuilder(topology).build();
}

}  // namespace ask::plan
