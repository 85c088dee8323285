// SPDX-License-Identifier: Apache-2.0
//
// A simulated switch: the program with the maps that groups need, on a few CPUs, and the changes that a
// daemon makes to the maps while packets pass. After each run the chunk's slot is looked at, if nobody owns
// it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/abi/map_types.h"
#include "lib/abi/values.h"
#include "tests/sim/frame/processors.h"
#include "tests/sim/frame/switch_program.h"
#include "tests/sim/groups/network.h"

namespace ask::sim::groups {

class Switch final : public Processors {
 public:
    Switch(World& world, Network& network, std::uint32_t number);
    ~Switch() override;
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;
    Switch(Switch&&) = delete;
    Switch& operator=(Switch&&) = delete;

    void fire(std::uint64_t event) override;

    // Maps, as lib/control/switch writes them.
    void set_channel(std::uint32_t at, const ask_channel& channel);
    void set_task(std::uint32_t at, const ask_task& task) { maps_->tasks[at] = task; }
    void set_flow(std::uint32_t at, const ask_flow_id& id, const ask_flow& flow);
    void erase_flow(const ask_flow_id& id);
    [[nodiscard]] ask_group& group(std::uint32_t at) { return maps_->groups[at]; }
    void set_fan(std::uint32_t at, std::vector<std::uint32_t> ports) { fans_[at] = std::move(ports); }
    void set_fan_member(std::uint32_t port, std::uint32_t host);

    // All maps are new ones; who is in the program ends with the old ones.
    void replace_maps();
    // Once no run goes on that was under way.
    void when_quiet(std::function<void()> then);
    [[nodiscard]] std::uint64_t counter(unsigned which) const;
    // Exactly one way out for each run, and none that cannot be.
    void check_counters();

    // Of a slot that is not empty: what is wrong with it, or "".
    std::function<std::string(const ask_value_slot&)> judge;

 private:
    struct Maps {
        sim_plane plane{};
        std::vector<sim_id> channel_ids;
        std::vector<sim_id> flow_ids;
        std::vector<sim_id> hosts;
        std::vector<ask_channel> channels;
        std::vector<ask_flow> flows;
        std::vector<ask_flow_stats> flow_stats;
        std::vector<ask_task> tasks;
        std::vector<ask_bucket> buckets;
        std::vector<ask_presence> presence;
        std::vector<__u64> counters;
        std::vector<sim_inner> none;
        std::vector<ask_group> groups;
        std::vector<ask_value_slot> slots;
        std::vector<ask_fan_member> fan_members;
    };

    [[nodiscard]] std::unique_ptr<Maps> make_maps() const;
    // The frame's slot is looked at.
    void left(const Frame& frame) override;
    void ended() override;
    void leave(Cpu& cpu, FramePtr frame) override;
    [[nodiscard]] std::string text_of(const Frame& frame) const override;
    void fan_out(Cpu& cpu, FramePtr frame);
    void disturb();
    void hold(ask_value_slot& slot);

    World& world_;
    std::unique_ptr<Maps> maps_;
    std::vector<std::vector<std::uint32_t>> fans_;
    std::array<std::uint64_t, ASK_CNT_COUNT> counted_{};  // by maps that are no more
};

}  // namespace ask::sim::groups
