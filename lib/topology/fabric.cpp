// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/fabric.h"

#include <utility>

#include "lib/topology/document.h"

namespace ask::topology {

using placement::kNoSwitch;
using placement::SwitchId;

Fabric::Fabric(Topology topology) : topology_(std::make_unique<const Topology>(std::move(topology))) {
    for (std::size_t at = 0; at < topology_->switches.size(); ++at) {
        switch_id_.emplace(topology_->switches[at].name, static_cast<SwitchId>(at));
    }
    for (const Host& host : topology_->hosts) {
        by_name_.emplace(host.name, &host);
        if (host.address) {
            by_address_.emplace(*host.address, &host);
        }
    }
}

Result<Fabric> Fabric::build(Topology topology) {
    Fabric fabric(std::move(topology));
    ASK_PASS(fabric.link_switches());
    ASK_PASS(fabric.check_roots());
    ASK_PASS(fabric.check_cycles());
    ASK_PASS(fabric.check_hosts());
    return fabric;
}

Error Fabric::wrong(std::uint32_t line, const std::string& text) const {
    return at_line(topology_->source, line, text);
}

Result<> Fabric::link_switches() {
    for (const Switch& each : switches()) {
        SwitchId parent = kNoSwitch;
        if (!each.parent.empty()) {
            const auto found = find_switch(each.parent);
            if (!found) {
                return wrong(each.line, "switch '" + each.name + "': its parent '" + each.parent +
                                            "' is no switch of this topology");
            }
            parent = *found;
        }
        parent_.push_back(parent);
    }
    return {};
}

Result<> Fabric::check_roots() const {
    const Switch* root = nullptr;
    for (const Switch& each : switches()) {
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
Result<> Fabric::check_cycles() const {
    const std::size_t count = parent_.size();
    std::vector<std::size_t> walk_of(count, count);  // count: not yet visited
    for (std::size_t start = 0; start < count; ++start) {
        SwitchId at = static_cast<SwitchId>(start);
        while (at != kNoSwitch && walk_of[at] == count) {
            walk_of[at] = start;
            at = parent_[at];
        }
        if (at != kNoSwitch && walk_of[at] == start) {
            return wrong(switches()[at].line, describe_cycle(at));
        }
    }
    return {};
}

std::string Fabric::describe_cycle(SwitchId first) const {
    constexpr int kMostNames = 8;
    std::string text = "switch '" + switches()[first].name + "' is its own ancestor, a cycle: ";
    SwitchId at = first;
    for (int names = 0; names < kMostNames; ++names) {
        text += switches()[at].name + " -> ";
        at = parent_[at];
        if (at == first) {
            return text + switches()[first].name;
        }
    }
    return text + "...";
}

Result<> Fabric::check_hosts() const {
    for (const Host& host : topology_->hosts) {
        if (!switch_id_.contains(host.attached_to)) {
            return wrong(host.line, "host '" + host.name + "': '" + host.attached_to +
                                        "' is no switch of this topology");
        }
    }
    return {};
}

std::optional<SwitchId> Fabric::find_switch(std::string_view name) const {
    const auto found = switch_id_.find(name);
    return found == switch_id_.end() ? std::nullopt : std::optional(found->second);
}

const Host* Fabric::find_host(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
}

const Host* Fabric::host_at(std::uint32_t address) const {
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? nullptr : found->second;
}

SwitchId Fabric::switch_of(const Host& host) const {
    return switch_id_.at(host.attached_to);
}

placement::TreeSpec Fabric::rooted_at(const Host* receiver) const {
    placement::TreeSpec spec;
    spec.parent = parent_;
    for (const Switch& each : switches()) {
        spec.rate.push_back(each.rate);
        spec.load.push_back(each.load);
        spec.available.push_back(each.available ? 1 : 0);
    }
    if (receiver == nullptr) {
        return spec;
    }
    // The links on the way from the receiver's switch to the file's root turn around. A rate belongs to its
    // link, and in the spec to the switch below it.
    SwitchId at = switch_of(*receiver);
    SwitchId above = kNoSwitch;
    double rate = receiver->rate;
    while (at != kNoSwitch) {
        above = std::exchange(spec.parent[at], above);
        rate = std::exchange(spec.rate[at], rate);
        std::swap(at, above);
    }
    return spec;
}

}  // namespace ask::topology
