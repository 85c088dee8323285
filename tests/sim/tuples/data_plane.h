// SPDX-License-Identifier: Apache-2.0
//
// A switch's kernel: the program's maps, and CPUs that run it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/control/switch/store.h"
#include "tests/sim/frame/processors.h"
#include "tests/sim/frame/switch_program.h"
#include "tests/sim/tuples/job.h"
#include "tests/sim/tuples/network.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

class DataPlane final : public Processors {
 public:
    static constexpr std::uint32_t kTasks = 16;

    DataPlane(World& world, Network& network, std::uint32_t number);
    ~DataPlane() override;

    // Everything is gone, and the mark's incarnation is another.
    void reboot();
    void fire(std::uint64_t event) override;

    // A grace period: every run that is under way has ended.
    Job<> grace_period();

    [[nodiscard]] sim_plane& maps() { return plane_; }
    [[nodiscard]] std::uint32_t incarnation() const { return plane_.mark_incarnation; }
    [[nodiscard]] Mark mark() const {
        return {static_cast<std::uint16_t>(plane_.switch_id), plane_.mark_incarnation};
    }
    // What is pinned, by task: what a successor of the daemon finds.
    std::map<std::string, std::map<TaskPin, OwnMapPtr>> pins;
    // Names of tasks, by tenant and id.
    std::map<std::pair<std::string, std::string>, std::string> names;
    // The maps in their places, by index; and those that were taken out, until a grace period is over.
    std::vector<OwnMapPtr> regions;
    std::vector<OwnMapPtr> heats;
    std::vector<OwnMapPtr> carried;
    std::array<std::vector<OwnMapPtr>, ASK_BACK_GROUPS> back;
    std::vector<OwnMapPtr> dying;
    // What of tasks and flows is still in the maps; empty: nothing.
    [[nodiscard]] std::string left_over() const;
    [[nodiscard]] std::uint64_t counter(unsigned which) const;
    // Exactly one way out for each run, and none that cannot be.
    void check_counters();

 private:
    void load();
    void finish_runs_unseen();
    [[nodiscard]] bool has_channel(const sim_id& host) const;
    void left(const Frame& frame) override { (void)frame; }
    void ended() override { ended_.notify(world_.clock); }
    [[nodiscard]] std::string text_of(const Frame& frame) const override;

    World& world_;
    sim_plane plane_{};
    Signal ended_;
    std::vector<sim_id> channel_id_memory_;
    std::vector<sim_id> flow_id_memory_;
    std::vector<sim_id> host_memory_;
    std::vector<ask_channel> channels_;
    std::vector<ask_dedupe_state> dedupe_;
    std::vector<ask_pkt_state> pkt_state_;
    std::vector<ask_flow> flows_;
    std::vector<ask_flow_stats> flow_stats_;
    std::vector<ask_bucket> buckets_;
    std::vector<ask_task> tasks_;
    std::vector<ask_presence> presence_;
    std::vector<__u64> counters_;
    std::vector<sim_inner> regions_;
    std::vector<sim_inner> heats_;
    std::vector<sim_inner> carried_;
    std::vector<ask_back> backs_;
    std::array<std::vector<sim_inner>, ASK_BACK_GROUPS> back_;
};

}  // namespace ask::sim
