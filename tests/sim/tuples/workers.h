// SPDX-License-Identifier: Apache-2.0
//
// The workers of a host: its channels, its receivers and its frames, by the simulated clock. What
// agent/worker/ does around lib/engine and lib/tuples is here in little: several receivers, one loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/control/member/workers_port.h"
#include "lib/engine/receiver.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/table_sink.h"
#include "tests/sim/tuples/application.h"
#include "tests/sim/tuples/network.h"
#include "tests/sim/tuples/world.h"
#include "tests/support/tuple_channel.h"

namespace ask::sim {

class SimWorkers final : public WorkersPort, public Handler {
 public:
    SimWorkers(World& world, Network& network, std::uint32_t host);

    // Their process has been killed: nothing happens any more. Timers may still be set.
    void kill() { dead_ = true; }
    // Stopped, they do nothing until they go on.
    void pause() { paused_ = true; }
    void go_on();
    // Frames of this host.
    void take(const Frame& frame);
    // A timer of a channel.
    void fire(std::uint64_t argument) override;
    // What is left when all is over; empty: nothing.
    [[nodiscard]] std::string left_over() const;
    [[nodiscard]] static SenderConfig sender_config(const Plan& plan);

    Result<> add_channel(ChannelId channel, std::uint32_t incarnation) override;
    Result<std::shared_ptr<TupleIntake>> make_intake(std::size_t bytes) override;
    Result<> begin(StreamStart start) override;
    Result<> set_addresses(ChannelId channel, const UdpAddresses& addresses) override;
    Result<> finish(ChannelId channel) override;
    Result<SenderStats> end(ChannelId channel) override;
    Result<SenderStats> abandon(ChannelId channel, std::uint32_t new_incarnation) override;
    Result<StreamState> stream_state(ChannelId channel) override;
    [[nodiscard]] unsigned size() const override { return static_cast<unsigned>(parts_.size()); }
    Result<> open_task(unsigned worker, std::uint64_t instance, ResultTable table,
                       std::shared_ptr<Mailbox> mailbox, bool in_parts) override;
    Result<ResultTable> exchange_table(std::uint64_t instance, ChannelId channel, ResultTable fresh) override;
    Result<> join(const FlowParams& flow, std::shared_ptr<TaskArrivals> arrivals) override;
    Result<std::unique_ptr<ResultTable>> close_task(unsigned worker, std::uint64_t instance,
                                                    bool failed) override;
    Result<FlowRxStats> flow_stats(std::uint64_t instance, ChannelId channel) override;

 private:
    struct Stream {
        Stream(ChannelId id, std::uint32_t incarnation, const SenderConfig& config)
            : data(id, incarnation, config) {}
        test::TupleChannel data;
        std::shared_ptr<SimIntake> intake;
        std::shared_ptr<Mailbox> mailbox;  // null: it has no task
        std::uint32_t receiver = 0;        // address
        bool local = false;
        bool finish_wanted = false;
        bool finished = false;
        bool fin_reported = false;
        bool pumping = false;
        Nanos armed = kNever;
    };
    struct Task {
        std::unique_ptr<ResultTable> table;
        std::optional<TableSink> sink;  // once a flow has joined
        std::shared_ptr<Mailbox> mailbox;
        bool in_parts = false;
        bool full = false;                                            // which was said
        std::map<ChannelId, std::shared_ptr<TaskArrivals>> arrivals;  // of flows that somebody watches
    };
    struct Part {
        Receiver receiver;
        std::map<std::uint64_t, Task> tasks;
    };

    // A command comes to its worker a moment later. False: not any more.
    bool get_through();
    Stream* find(ChannelId channel);
    Part& owner(ChannelId channel) { return *parts_[ChannelIdHash{}(channel) % parts_.size()]; }
    void rest(Stream& stream);
    void send(std::uint32_t to, Ports ports, std::span<const std::byte> payload);
    void deliver(std::uint32_t from, Ports ports, std::span<const std::byte> payload, bool ecn_ce);
    void take_data(std::uint32_t from, Ports ports, std::span<const std::byte> payload, bool ecn_ce);
    void take_ack(Ports ports, std::span<const std::byte> payload);
    static void note(Part& part, const RxVerdict& verdict, const Plan& plan);
    void pump(Stream& stream);
    static void feed(Stream& stream);
    void turn(Stream& stream);
    void arm(Stream& stream);
    void arm_at(Stream& stream, Nanos when);

    World& world_;
    Network& network_;
    const std::uint32_t host_;
    bool dead_ = false;
    bool paused_ = false;
    std::vector<std::unique_ptr<Stream>> streams_;
    std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace ask::sim
