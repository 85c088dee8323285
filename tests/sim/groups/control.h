// SPDX-License-Identifier: Apache-2.0
//
// What opens and closes groups at switches, as lib/control/switch writes them, and opens them again where
// maps are gone. An application's calls and the agents' between each other are not here: all members know
// all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/sim/groups/group.h"
#include "tests/sim/groups/switch.h"

namespace ask::sim::groups {

class Control {
 public:
    Control(World& world, Network& network, std::vector<std::unique_ptr<Switch>>& switches);

    // Opens it once each switch concerned has a task left, and says so.
    void open(Group& group);
    void close(Group& group);
    void replace_maps(std::uint32_t number);

    std::function<void(Group&)> opened;
    // Results of the group's collector go to all by its switch, or to each alone.
    std::function<void(Group&, bool)> set_fan_out;

 private:
    static constexpr std::uint32_t kNone = ~0U;

    [[nodiscard]] std::uint32_t last_switch(const Group& group) const;
    [[nodiscard]] std::vector<std::uint32_t> switches_of(const Group& group) const;
    [[nodiscard]] std::uint64_t below(const Group& group, std::uint32_t number) const;
    [[nodiscard]] bool has_fan(const Group& group) const;
    [[nodiscard]] std::vector<std::uint32_t> fan_of(const Group& group, std::uint32_t number) const;
    void write_group(const Group& group, std::uint32_t number);
    void write_channels(const Group& group, std::uint32_t number);
    void write_flow(const Group& group, std::uint32_t number, std::uint32_t rank);
    void open_again(Group& group, std::uint32_t number);
    [[nodiscard]] bool is_open(const Group& group) const { return tasks_[group.number] != kNone; }
    [[nodiscard]] bool has_group(const Group& group, std::uint32_t number) const;

    World& world_;
    Network& network_;
    std::vector<std::unique_ptr<Switch>>& switches_;
    std::vector<std::uint32_t> tasks_;  // by group; kNone: not open
    std::vector<Group*> groups_;        // that were opened
    std::vector<bool> taken_;           // tasks, the same at all switches
};

}  // namespace ask::sim::groups
