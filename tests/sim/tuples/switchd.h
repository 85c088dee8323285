// SPDX-License-Identifier: Apache-2.0
//
// ask-switchd: its controller, as shipped (lib/control/switch), on threads of a simulated process. What
// loader/main.cpp and service.cpp do around it is here in little: calls, ticks, the stream of a fetch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/member/switch_port.h"
#include "lib/control/switch/controller.h"
#include "proto/switch.pb.h"
#include "tests/sim/tuples/calls.h"
#include "tests/sim/tuples/data_plane.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

class SwitchDaemon final : public Server {
 public:
    // Longer than a member takes between two renewals, with a call that is lost.
    static constexpr Nanos kLease = 10 * kSecond;

    // `die` is asked before every step that changes the switch: true, and the daemon is killed there.
    SwitchDaemon(World& world, DataPlane& plane, const Network& network, std::uint32_t number,
                 std::function<bool()> die);
    ~SwitchDaemon();
    SwitchDaemon(const SwitchDaemon&) = delete;
    SwitchDaemon& operator=(const SwitchDaemon&) = delete;

    // Starting it adopts what is there.
    void start();
    void kill();
    // As SIGSTOP and SIGCONT do: calls that come meanwhile wait, those whose callers have gone are served
    // late.
    void stop();
    void go_on();

    // By threads of this process, which serve calls: those that come while it adopts wait at its door.
    void await_serving();
    Result<v1::SwitchInfo> info();
    Result<v1::SwitchStatus> status(const Caller& caller);
    Result<v1::OpenTaskReply> open_task(const Caller& caller, const v1::OpenTaskRequest& request,
                                        const CallerGone& gone);
    Result<Done> close_task(const Caller& caller, std::uint64_t instance);
    Result<SwitchPort::Joined> join_flow(const Caller& caller, const v1::JoinFlowRequest& request,
                                         const CallerGone& gone);
    // The incarnation that is registered now: another than the one asked for if `replaces` is not it.
    Result<std::pair<Mark, std::uint32_t>> register_channel(const Caller& caller,
                                                            const v1::RegisterChannelRequest& request);
    Result<Done> unregister_channel(const Caller& caller, ChannelId channel, std::uint32_t incarnation);
    Result<v1::RenewTasksReply> renew(const Caller& caller, const std::vector<std::uint64_t>& instances);
    Result<Done> fetch(const Caller& caller, const FetchOrder& order, const CallerGone& gone,
                       std::vector<v1::FetchChunk>& chunks);
    Result<Done> confirm(const Caller& caller, const RegionId& region, std::uint64_t epoch);

    // When all is over nothing may be left of any task.
    void check_nothing_left();
    [[nodiscard]] std::uint64_t swaps() const { return swaps_; }

 private:
    void life();
    [[nodiscard]] v1::Mark mark() const;

    World& world_;
    DataPlane& plane_;
    const Network& network_;
    std::uint32_t number_;
    std::function<bool()> die_;
    std::unique_ptr<SwitchStore> store_;
    Controller* controller_ = nullptr;  // on the stack of life(), while it serves
    Signal serving_;
    std::uint64_t swaps_ = 0;
    std::set<std::uint64_t> closed_;  // instances that somebody asked to close
};

}  // namespace ask::sim
