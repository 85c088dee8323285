// SPDX-License-Identifier: Apache-2.0
//
// ask-switchd, thin: what loader/controller*.cpp does to the maps, in its order, step by step. Between two
// steps packets pass and the daemon may die; a successor starts from maps and pins alone. What is left out:
// budgets, bad requests, MTU.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/types.h"
#include "loader/index_pool.h"
#include "tests/sim/data_plane.h"
#include "tests/sim/world.h"

namespace ask::sim {

struct OpenRequest {
    std::string id;
    std::uint64_t instance = 0;
    Geometry geometry;
    Op op = Op::kSum;
    std::uint32_t aggregators = 0;  // of an AA in one copy
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

class Controller {
 public:
    static constexpr Nanos kLease = 3 * kSecond;
    static constexpr Nanos kPatience = 1 * kSecond;

    // `die` is asked between steps: true, and the daemon is killed there.
    Controller(World& world, DataPlane& plane, Network& network, std::uint32_t number,
               std::function<bool()> die);

    // The daemon's process. Starting it adopts what is there.
    Process process;
    void start();
    void kill();

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
    using FlowKey = std::pair<std::uint64_t, ChannelId>;
    struct Channel {
        std::uint32_t index = 0;
        std::uint32_t incarnation = 0;
    };
    struct Task {
        enum class State : std::uint8_t { kOpening, kOpen, kClosing };
        State state = State::kOpening;
        std::string id;
        std::uint32_t index = 0;
        ask_task entry{};
        bool swapping = false;
        Nanos expires = 0;
    };
    // What is lost with the process.
    struct Memory {
        explicit Memory(const sim_plane& maps)
            : channel_pool(maps.max_channels), flow_pool(maps.max_flows), task_pool(maps.max_tasks) {}
        AsyncMutex mutex;
        Signal settled;
        Signal work;
        IndexPool channel_pool;
        IndexPool flow_pool;
        IndexPool task_pool;
        std::map<ChannelId, Channel> channels;
        std::map<FlowKey, std::uint32_t> flows;
        std::map<std::uint64_t, Task> tasks;
        std::vector<std::uint32_t> dead_channels;
        std::vector<std::uint32_t> dead_flows;
        std::vector<std::uint64_t> dead_tasks;
        bool serving = false;
    };

    // A step of its own: others run meanwhile, and the daemon may not live to see its end.
    Job<> step(const char* what);
    Job<> life();
    Job<> adopt();
    void adopt_tasks();
    void adopt_channels();
    void adopt_flows();
    Job<> reclaim_loop();
    Job<> lease_loop();
    Job<> ready();

    Job<> drop_flow(FlowKey key);
    Job<> drop_flows(std::optional<std::uint64_t> instance, std::optional<ChannelId> channel);
    Job<> drop_channel(ChannelId channel);
    Job<> lock_again(AsyncMutex::Lock& lock);
    Job<std::optional<std::uint32_t>> take(IndexPool& pool, AsyncMutex::Lock& lock);
    [[nodiscard]] Result<bool> is_joined(std::uint64_t instance, ChannelId channel, std::uint32_t incarnation,
                                         const ask_check_key& key);
    Job<> build_task(std::uint64_t instance);
    Job<> begin_close(std::uint64_t instance);
    Job<Result<Task*>> find_settled(std::uint64_t instance, AsyncMutex::Lock& lock);
    Job<Result<Done>> close_epoch(std::uint64_t instance, std::uint64_t epoch);
    Job<> copy_barrier();
    Job<Result<Copy>> stream(std::uint64_t instance, std::uint64_t epoch, std::uint64_t word);
    void blank(const Task& task, std::uint64_t epoch);
    [[nodiscard]] PinnedTask* pinned(const std::string& id);
    [[nodiscard]] ask_task& entry_of(const Task& task) { return plane_.maps().tasks[task.index]; }

    World& world_;
    DataPlane& plane_;
    Network& network_;
    std::uint32_t number_;
    std::function<bool()> die_;
    std::unique_ptr<Memory> memory_;
    std::uint64_t swaps_ = 0;
};

}  // namespace ask::sim
