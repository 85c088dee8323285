// SPDX-License-Identifier: Apache-2.0
//
// ask-switchd: its controller, as shipped (lib/control/switch), on threads of a simulated process. What
// loader/main.cpp and service.cpp do around it is here in little: calls, ticks, the stream of a fetch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/switch/controller.h"
#include "lib/tuples/types.h"
#include "tests/sim/data_plane.h"
#include "tests/sim/threads.h"
#include "tests/sim/world.h"

namespace ask::sim {

struct OpenRequest {
    std::string id;
    std::uint64_t instance = 0;
    Geometry geometry;
    Op op = Op::kSum;
    std::uint32_t aggregators = 0;  // of an AA in one copy; 0: no region
    std::uint32_t copies = 0;
    std::uint32_t policy = ASK_POLICY_FIRST_COME;
};

struct Grant {
    Mark mark;
    std::uint32_t aggregators = 0;  // of an AA in one copy
    std::uint32_t copies = 0;
};

// A copy as it arrives: whole, or not at all.
struct Copy {
    std::string entries;
    std::uint64_t count = 0;
    std::uint64_t epoch = 0;
    std::uint64_t aggregated = 0;  // tuples, since the task began
    Mark mark;
};

class SwitchDaemon {
 public:
    static constexpr Nanos kLease = 3 * kSecond;

    // `die` is asked before every step that changes the switch: true, and the daemon is killed there.
    SwitchDaemon(World& world, DataPlane& plane, const Network& network, std::uint32_t number,
                 std::function<bool()> die);
    ~SwitchDaemon();
    SwitchDaemon(const SwitchDaemon&) = delete;
    SwitchDaemon& operator=(const SwitchDaemon&) = delete;

    // The daemon's calls. Starting it adopts what is there.
    Process process;
    void start();
    void kill();
    // As SIGSTOP and SIGCONT do: calls that come meanwhile wait, those whose callers have gone are served
    // late.
    void stop();
    void go_on();

    // The control interface; to be called through call().
    // The incarnation that is registered now: another than the one asked for if `replaces` is not it.
    using Registration = std::pair<Mark, std::uint32_t>;
    Job<Result<Registration>> register_channel(ChannelId channel, std::uint32_t incarnation,
                                               std::uint32_t replaces);
    Job<Result<Done>> unregister_channel(ChannelId channel, std::uint32_t incarnation);
    Job<Result<Grant>> open_task(OpenRequest request);
    Job<Result<Mark>> join_flow(std::uint64_t instance, ChannelId channel, std::uint32_t incarnation,
                                CheckSecret secret);
    Job<Result<Copy>> fetch(std::uint64_t instance, std::uint64_t epoch, bool close);
    Job<Result<Done>> confirm(std::uint64_t instance, std::uint64_t epoch);
    Job<Result<Done>> close_task(std::uint64_t instance);
    // The mark, and whether the instance is open.
    Job<Result<std::pair<Mark, bool>>> renew(std::uint64_t instance);
    // Channels of a host, as askctl status lists them.
    Job<Result<std::vector<std::pair<ChannelId, std::uint32_t>>>> channels_of(std::uint32_t host);

    // When all is over nothing may be left of any task.
    void check_nothing_left();
    [[nodiscard]] std::uint64_t swaps() const { return swaps_; }

 private:
    void life();
    // One call, on a thread of its own.
    template <typename T>
    Job<Result<T>> serve(std::function<Result<T>(Controller&)> body);

    World& world_;
    DataPlane& plane_;
    const Network& network_;
    std::uint32_t number_;
    std::function<bool()> die_;
    std::unique_ptr<SwitchStore> store_;
    Controller* controller_ = nullptr;  // on the stack of life(), while it serves
    Signal serving_;
    std::uint64_t swaps_ = 0;
    Threads threads_;
};

}  // namespace ask::sim
