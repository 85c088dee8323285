// SPDX-License-Identifier: Apache-2.0
//
// A switch's kernel: the program's maps, and CPUs that run it. A run may be suspended before any access to a
// map while other CPUs, the controller and the network go on; a CPU takes its packets one after another, as
// softirq does.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/control/switch/store.h"
#include "tests/sim/fiber.h"
#include "tests/sim/network.h"
#include "tests/sim/switch_program.h"
#include "tests/sim/world.h"

namespace ask::sim {

class DataPlane final : public Handler {
 public:
    static constexpr std::uint32_t kTasks = 16;

    DataPlane(World& world, Network& network, std::uint32_t number);
    ~DataPlane() override;

    // Everything is gone, and the mark's incarnation is another.
    void reboot();
    void receive(FramePtr frame, std::uint32_t port);
    void fire(std::uint64_t cpu) override;

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
    struct Cpu {
        sim_cpu state{};
        std::vector<__u64> back_vector;
        std::unique_ptr<Fiber> fiber;
        std::deque<std::pair<FramePtr, std::uint32_t>> queue;
        FramePtr frame;  // of the run under way
        std::size_t size = 0;
        std::uint32_t port = 0;
        int action = 0;
        std::uint64_t runs = 0;
        bool busy = false;
    };
    friend void note_suspension(sim_cpu* cpu, const char* what);

    void load();
    [[nodiscard]] std::uint32_t pick_cpu(const Frame& frame);
    void start(Cpu& cpu);
    void go_on(Cpu& cpu);
    void finish(Cpu& cpu);
    void route_up(FramePtr frame);
    [[nodiscard]] std::uint32_t draw_countdown();
    void finish_runs_unseen();

    World& world_;
    Network& network_;
    std::uint32_t number_;
    sim_plane plane_{};
    std::vector<Cpu> cpus_;
    Signal ended_;
    std::uint64_t boots_ = 0;
    std::vector<sim_id> channel_id_memory_;
    std::vector<sim_id> flow_id_memory_;
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
