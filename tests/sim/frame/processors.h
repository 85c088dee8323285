// SPDX-License-Identifier: Apache-2.0
//
// CPUs of a switch, which run its program. A run may be suspended before any access to a map while other
// CPUs, the controller and the network go on; a CPU takes its packets one after another, as softirq does.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/frame/fiber.h"
#include "tests/sim/frame/links.h"
#include "tests/sim/frame/switch_program.h"

namespace ask::sim {

// Of a plan, as its fields of these names say.
struct CpuPlan {
    std::uint32_t cpus = 1;
    std::uint32_t steering = 0;
    std::uint32_t pause = 0;
    std::uint32_t stall = 0;
    std::uint32_t most_accesses = 0;  // of a run: one that is to be suspended later than that is not

    template <typename Plan>
    static CpuPlan of(const Plan& plan, std::uint32_t most_accesses) {
        return {.cpus = plan.cpus,
                .steering = plan.steering,
                .pause = plan.pause,
                .stall = plan.stall,
                .most_accesses = most_accesses};
    }
};

class Processors : public Handler {
 public:
    Processors(Scene& scene, Links& links, std::uint32_t number, const CpuPlan& plan);
    Processors(const Processors&) = delete;
    Processors& operator=(const Processors&) = delete;
    Processors(Processors&&) = delete;
    Processors& operator=(Processors&&) = delete;
    // Whoever has the maps ends all runs first.
    ~Processors() override;

    void receive(FramePtr frame, std::uint32_t port);
    // By this switch; 0: there is no such host.
    int find_route(std::uint32_t host, sim_hop& hop) const;
    // By the run under way: back to whoever started or resumed it.
    void suspend_run(const sim_cpu& cpu, const char* what);
    [[nodiscard]] Nanos now() const { return scene_.clock.now(); }

 protected:
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

    // From now on all CPUs run on these maps; what was due to go on belongs to others.
    void use(sim_plane& plane);
    [[nodiscard]] std::uint64_t life() const { return lives_; }
    // Whether an event of theirs is of these maps, and of which CPU.
    [[nodiscard]] bool is_current(std::uint64_t event) const { return event >> 32U == lives_; }
    [[nodiscard]] Cpu& cpu_of(std::uint64_t event) { return cpus_[event & 0xffffffffU]; }
    [[nodiscard]] std::vector<Cpu>& cpus() { return cpus_; }

    void start(Cpu& cpu);
    void go_on(Cpu& cpu);
    // Runs on to its end, if it is suspended. False: it was not.
    bool run_out(Cpu& cpu);
    void finish(Cpu& cpu);
    void route_up(FramePtr frame);

    // Runs that are under way; and whether one of these still is.
    [[nodiscard]] std::vector<std::uint64_t> under_way() const;
    [[nodiscard]] bool still_runs(const std::vector<std::uint64_t>& runs, std::size_t cpu) const;
    // Exactly one way out for each run, and none that cannot be: what is wrong, or "". `counted`: of all maps
    // that the CPUs have had.
    [[nodiscard]] std::string judge_counters(const std::array<std::uint64_t, ASK_CNT_COUNT>& counted) const;

    // A run has ended: what it left behind, before its frame goes anywhere; and after that.
    virtual void left(const Frame& frame) = 0;
    virtual void ended() = 0;
    // Out of the switch, or up its stack.
    virtual void leave(Cpu& cpu, FramePtr frame);
    [[nodiscard]] virtual std::string text_of(const Frame& frame) const = 0;

    Scene& scene_;
    Links& links_;
    std::uint32_t number_;

 private:
    [[nodiscard]] std::uint32_t pick_cpu(const Frame& frame);
    [[nodiscard]] std::uint32_t draw_countdown();
    void due(const Cpu& cpu, Nanos delay);
    void resume(Cpu& cpu);
    void suspended(Cpu& cpu);
    [[nodiscard]] std::string reason_of(const Cpu& cpu) const;

    CpuPlan plan_;
    std::vector<Cpu> cpus_;
    std::uint64_t lives_ = 0;  // of maps
};

}  // namespace ask::sim
