// SPDX-License-Identifier: Apache-2.0
//
// One history: hosts and switches, applications that run tasks, and what befalls them; at its end every
// promise of the design (I1-I6) is checked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/tuples/apps.h"
#include "tests/sim/tuples/data_plane.h"
#include "tests/sim/tuples/host.h"
#include "tests/sim/tuples/intruder.h"
#include "tests/sim/tuples/network.h"
#include "tests/sim/tuples/oracle.h"
#include "tests/sim/tuples/plan.h"
#include "tests/sim/tuples/relayd.h"
#include "tests/sim/tuples/stranger.h"
#include "tests/sim/tuples/streams.h"
#include "tests/sim/tuples/switchd.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

struct Verdict {
    Promise broken = Promise::kNone;
    std::string failure;  // empty: all promises held
    std::uint64_t events = 0;
    std::uint64_t frames = 0;
    std::uint64_t commits = 0;
    std::uint64_t windows = 0;  // committed
    std::uint64_t errors = 0;   // receives that ended in an error
    std::uint64_t swaps = 0;
    Nanos time = 0;

    // What was done, for a sum of many.
    void add(const Verdict& other) {
        frames += other.frames;
        commits += other.commits;
        windows += other.windows;
        errors += other.errors;
        swaps += other.swaps;
    }
};

class History final : public Handler {
 public:
    History(const Plan& plan, std::uint64_t seed, bool traced);
    ~History() override;
    Verdict run();
    void fire(std::uint64_t action) override;

 private:
    enum class Act : std::uint8_t {
        kStrike,
        kKillSwitchd,
        kStartSwitchd,
        kWakeSwitchd,
        kStartAgent,
        kWakeAgent,
        kJoinLink,
        kRouteBack,
        kStartRelayd,
        kWakeRelayd
    };

    void build();
    // Chance strikes, until all has that the plan has.
    void strikes();
    void strike(std::uint32_t kind);
    void kill_switchd(std::uint32_t number);
    void kill_agent(std::uint32_t host);
    void hang_relay();
    void strike_relay(bool stops);
    void kill_relayd(std::uint32_t number);
    [[nodiscard]] bool dies_at_step(std::uint32_t number);
    void later(Nanos delay, Act act, std::uint32_t number);
    [[nodiscard]] std::uint32_t some_task_host(bool receiver);
    void check_end();
    [[nodiscard]] bool stands_still() const;
    [[nodiscard]] bool has_windows() const { return world_.plan.windows > 0; }
    [[nodiscard]] bool is_over() const { return has_windows() ? streams_.done() : apps_.done(); }
    [[nodiscard]] Nanos until_strike(std::size_t left);
    [[nodiscard]] Nanos until_restart();

    World world_;
    Network network_;
    Oracle oracle_;
    std::vector<std::unique_ptr<DataPlane>> planes_;
    std::vector<std::unique_ptr<SwitchDaemon>> switchds_;
    std::vector<std::unique_ptr<Host>> hosts_;
    std::vector<std::unique_ptr<RelayDaemon>> relayds_;  // beside the last of the hosts
    std::vector<std::uint32_t> steps_to_death_;          // of each switchd; 0: none planned
    Threads chance_;
    Stranger stranger_;
    Intruder intruder_;
    Apps apps_;
    StreamApps streams_;  // in place of these, if the plan has windows
};

}  // namespace ask::sim
