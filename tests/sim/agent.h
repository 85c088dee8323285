// SPDX-License-Identifier: Apache-2.0
//
// ask-agentd, thin: channels, the receiving end and the sessions, as agent/*.cpp run them around lib/engine
// and lib/tuples, with one worker. Times are a tenth of the daemon's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/engine/receiver.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/swap_policy.h"
#include "lib/tuples/table_sink.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"
#include "tests/sim/switchd.h"
#include "tests/sim/world.h"
#include "tests/support/tuple_channel.h"

namespace ask::sim {

class Agent;

struct Parts {
    World& world;
    Network& network;
    Oracle& oracle;
    std::vector<std::unique_ptr<SwitchDaemon>>& switchds;
    std::vector<std::unique_ptr<Agent>>& agents;
};

enum class Outcome : std::uint8_t { kRunning, kCommitted, kFailed, kUnknown };

// At the receiver.
struct TaskSender {
    std::uint64_t sender = 0;
    FlowParams flow;
    bool joined = false;
    bool fin = false;
    bool left = false;
    Nanos last_heard = 0;
};

struct ReceiveTask {
    std::string id;
    std::uint64_t instance = 0;
    std::uint64_t root = 0;  // of its flows' secrets
    std::uint32_t senders_expected = 0;
    Mark mark;
    std::uint32_t aggregators = 0;
    std::uint32_t copies = 0;
    Nanos opened = 0;
    Outcome outcome = Outcome::kRunning;
    std::vector<TaskSender> senders;
    std::unique_ptr<ResultTable> table;
    std::optional<TableSink> sink;  // once a sender has joined
    std::optional<Error> error;     // that ends the task
    Signal changed;
    // Swaps.
    SwapArrivals arrivals;
    Signal arrived;
    bool finish_swaps = false;
    bool abandoned = false;
    bool swaps_ended = true;
    std::uint64_t epoch = 0;
    std::unique_ptr<ResultTable> swapped;
};

struct Offer {
    std::uint64_t instance = 0;
    Mark mark;
    std::uint32_t switch_number = 0;
};
struct JoinRequest {
    std::uint64_t instance = 0;
    std::uint64_t sender = 0;
    ChannelId channel;
    std::uint32_t incarnation = 0;
    std::uint64_t first_seq = 0;
    Mark registered;
};

// A data channel and what its agent remembers of its registration.
struct Channel {
    Channel(ChannelId id, std::uint32_t incarnation, const SenderConfig& config)
        : data(id, incarnation, config) {}
    test::TupleChannel data;
    Mark registered;
    std::uint32_t switch_number = 0;
    std::uint32_t registered_as = 0;
    bool leased = false;
    // The stream under way.
    std::shared_ptr<const Tuples> tuples;
    std::size_t offered = 0;
    std::uint32_t receiver = 0;  // host
    Nanos next_burst = 0;
    Nanos armed = kNever;
    bool finished = false;
    bool fin_reported = false;
};

// How often sessions look after themselves.
inline constexpr Nanos kSessionTick = 50 * kMillisecond;

[[nodiscard]] inline bool is_transient(const Error& error) {
    return error.code() == Errc::kUnavailable || error.code() == Errc::kDeadline;
}

class Agent final : public Handler {
 public:
    Agent(const Parts& parts, std::uint32_t host);

    Process process;
    void start();
    void kill();
    [[nodiscard]] std::uint64_t life() const { return life_; }
    // A session has ended, or the agent has died.
    Signal sessions;

    // Frames of this host.
    void receive(FramePtr frame);
    void fire(std::uint64_t argument) override;

    // Sessions: what an application asks for.
    Job<Result<Done>> receive_task(std::string id, std::uint32_t senders);
    Job<Result<Done>> send_task(std::string id, std::uint32_t to, std::shared_ptr<const Tuples> tuples);

    // The control interface to other agents.
    Job<Result<Offer>> look_up(std::string id);
    Job<Result<FlowParams>> join(JoinRequest request);
    Job<Result<Outcome>> renew(std::uint64_t instance, std::uint64_t sender);
    Job<Result<Done>> leave(std::uint64_t instance, std::uint64_t sender);

    void check_nothing_left();

 private:
    using TaskPtr = std::shared_ptr<ReceiveTask>;

    [[nodiscard]] std::uint32_t own_switch() const { return network_.switch_of(host_); }
    [[nodiscard]] SwitchDaemon& switchd(std::uint32_t number) { return *parts_.switchds[number]; }
    [[nodiscard]] Nanos deadline() const { return Nanos{world_.plan.deadline} * kMillisecond; }
    void send_payload(std::uint32_t to, Ports ports, std::span<const std::byte> payload);
    void pump(std::size_t channel);
    void feed(Channel& channel);
    void arm(std::size_t channel);

    // Keeping what is on the switch (agent/switch_keeper.cpp).
    Job<> keeper();
    Job<bool> clear_left_over();
    Job<> renew_tasks();

    // Receiving (agent/receive_session.cpp, registry.cpp, swapper.cpp).
    Job<Result<Done>> open_on_switch(TaskPtr task);
    Job<Result<Done>> collect(TaskPtr task);
    Job<Result<Done>> commit(TaskPtr task);
    [[nodiscard]] Result<> check_senders(const ReceiveTask& task) const;
    Job<> swapper(TaskPtr task);
    Job<Result<Done>> swap(TaskPtr task, SwapPolicy& policy);
    Job<Result<Done>> fetch_last(TaskPtr task);
    Job<> close_on_switch(std::uint64_t instance);
    Job<> give_up(TaskPtr task);
    [[nodiscard]] Result<> set_up(ReceiveTask& task, const FlowParams& flow);
    void note(const RxVerdict& verdict);
    [[nodiscard]] TaskPtr find(std::uint64_t instance);

    // Sending (agent/send_session.cpp).
    struct Sending {
        std::string id;
        std::uint32_t to = 0;
        std::shared_ptr<const Tuples> tuples;
        std::uint64_t sender = 0;
        Nanos give_up_at = 0;
        std::size_t channel = 0;
        bool has_channel = false;
        bool joined = false;
        bool streaming = false;
        Offer offer;
    };
    Job<Result<Done>> join_task(Sending& sending);
    Job<Result<bool>> try_join(Sending& sending);
    Job<Result<bool>> register_channel(Sending& sending);
    Job<Result<Done>> stream(Sending& sending);
    Job<> put_channel_back(Sending& sending, bool clean);
    Job<> unregister(std::size_t channel);

    Parts parts_;
    World& world_;
    Network& network_;
    std::uint32_t host_;
    std::uint64_t life_ = 0;
    std::unique_ptr<Receiver> receiver_;
    std::map<std::uint64_t, TaskPtr> tasks_;
    std::vector<std::unique_ptr<Channel>> channels_;
    Signal channel_free_;
};

}  // namespace ask::sim
