// SPDX-License-Identifier: Apache-2.0
//
// A simulated switch: the program with the maps that groups need, on a few CPUs, and the changes that a
// daemon makes to the maps while packets pass. After each run the chunk's slot is looked at, if nobody owns
// it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/abi/map_types.h"
#include "lib/abi/values.h"
#include "tests/sim/fiber.h"
#include "tests/sim/groups/network.h"
#include "tests/sim/switch_program.h"

namespace ask::sim::groups {

class Switch final : public Handler {
 public:
    Switch(World& world, Network& network, std::uint32_t number);
    ~Switch() override;
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;
    Switch(Switch&&) = delete;
    Switch& operator=(Switch&&) = delete;

    void receive(FramePtr frame, std::uint32_t port);
    void fire(std::uint64_t cpu) override;

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
    struct Cpu {
        sim_cpu state{};
        std::vector<__u64> back_vector;
        std::unique_ptr<Fiber> fiber;
        std::deque<std::pair<FramePtr, std::uint32_t>> queue;
        FramePtr frame;  // of the run under way
        std::size_t size = 0;
        std::uint32_t port = 0;
        int action = 0;
        std::array<std::uint64_t, ASK_CNT_COUNT> counted{};  // as the run began, if it is traced
        std::uint64_t runs = 0;
        bool busy = false;
    };
    struct Maps {
        sim_plane plane{};
        std::vector<sim_id> channel_ids;
        std::vector<sim_id> flow_ids;
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
    void use_maps();
    [[nodiscard]] std::uint32_t pick_cpu(const Frame& frame);
    [[nodiscard]] std::uint32_t draw_countdown();
    void start(Cpu& cpu);
    void go_on(Cpu& cpu);
    void suspended(Cpu& cpu);
    void finish(Cpu& cpu);
    [[nodiscard]] std::string reason_of(const Cpu& cpu) const;
    void leave(Cpu& cpu, FramePtr frame);
    void fan_out(Cpu& cpu, FramePtr frame);
    void route_up(FramePtr frame);
    void look_at_slot(const Frame& frame);
    void disturb();
    void hold(ask_value_slot& slot);

    World& world_;
    Network& network_;
    std::uint32_t number_;
    std::vector<Cpu> cpus_;
    std::unique_ptr<Maps> maps_;
    std::vector<std::vector<std::uint32_t>> fans_;
    std::uint64_t lives_ = 0;                             // of maps
    std::array<std::uint64_t, ASK_CNT_COUNT> counted_{};  // by maps that are no more
};

}  // namespace ask::sim::groups
