// SPDX-License-Identifier: Apache-2.0
//
// A topology whose switches form a tree, and who is where in it: what every plan on it begins with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/tree.h"
#include "lib/topology/topology.h"

namespace ask::topology {

class Fabric {
 public:
    // kInput for a parent or switch that does not exist, no root, two roots or a cycle (naming its switches);
    // the text starts with "NAME:LINE: ". What the topology says of a task is not looked at.
    static Result<Fabric> build(Topology topology);
    Fabric(Fabric&&) = default;
    Fabric& operator=(Fabric&&) = default;
    // Its tables point into its own strings.
    Fabric(const Fabric&) = delete;
    Fabric& operator=(const Fabric&) = delete;
    ~Fabric() = default;

    [[nodiscard]] const Topology& topology() const { return *topology_; }
    // By SwitchId, in the order of the file.
    [[nodiscard]] const std::vector<Switch>& switches() const { return topology_->switches; }
    [[nodiscard]] std::optional<placement::SwitchId> find_switch(std::string_view name) const;
    // Null if there is none.
    [[nodiscard]] const Host* find_host(std::string_view name) const;
    [[nodiscard]] const Host* host_at(std::uint32_t address) const;
    [[nodiscard]] placement::SwitchId switch_of(const Host& host) const;

    // The tree whose root hands its messages to this host, or, if there is none, to whatever is above the
    // file's root. Links keep their rates, whichever way messages then take. Loads are the switches' own.
    [[nodiscard]] placement::TreeSpec rooted_at(const Host* receiver) const;

 private:
    explicit Fabric(Topology topology);
    [[nodiscard]] Error wrong(std::uint32_t line, const std::string& text) const;
    Result<> link_switches();
    Result<> check_roots() const;
    Result<> check_cycles() const;
    [[nodiscard]] std::string describe_cycle(placement::SwitchId first) const;
    Result<> check_hosts() const;

    std::unique_ptr<const Topology> topology_;
    std::unordered_map<std::string_view, placement::SwitchId> switch_id_;
    std::unordered_map<std::string_view, const Host*> by_name_;
    std::unordered_map<std::uint32_t, const Host*> by_address_;
    std::vector<placement::SwitchId> parent_;
};

}  // namespace ask::topology
