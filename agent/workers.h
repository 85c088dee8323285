// SPDX-License-Identifier: Apache-2.0
//
// All workers of the agent.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "agent/arena_budget.h"
#include "agent/worker.h"

namespace ask {

class Workers final : public WorkersPort, public GroupWorkers {
 public:
    struct Options {
        unsigned workers = 1;
        std::uint32_t own_address = 0;
        SenderConfig sender;
        Nanos busy_poll = 0;
        std::size_t arena_limit = 0;  // bytes
    };
    // Queue q's goes to worker q % workers.
    Workers(const Options& options, std::vector<XskSocket> sockets);
    ~Workers() override { stop(); }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    Result<> start();
    void stop();
    // Of an interface that is a bond. `fresh`: sockets on members that have come.
    Result<> change_link(const LinkChange& change, std::vector<XskSocket> fresh);

    [[nodiscard]] unsigned size() const override { return static_cast<unsigned>(workers_.size()); }
    [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& all() { return workers_; }
    [[nodiscard]] Worker& at(unsigned index) { return *workers_[index]; }
    [[nodiscard]] Worker& owner(ChannelId channel) { return at(owner_of(channel, size())); }
    Result<> add_channel(ChannelId channel, std::uint32_t incarnation) override;
    Result<std::shared_ptr<TupleIntake>> make_intake(std::size_t bytes) override;
    Result<> begin(StreamStart start) override;
    Result<> set_addresses(ChannelId channel, const UdpAddresses& addresses) override;
    Result<> finish(ChannelId channel) override;
    Result<SenderStats> end(ChannelId channel) override;
    Result<SenderStats> abandon(ChannelId channel, std::uint32_t new_incarnation) override;
    Result<StreamState> stream_state(ChannelId channel) override;
    Result<> open_task(unsigned worker, std::uint64_t instance, ResultTable table,
                       std::shared_ptr<Mailbox> mailbox, bool in_parts) override;
    Result<ResultTable> exchange_table(std::uint64_t instance, ChannelId channel, ResultTable fresh) override;
    Result<> join(const FlowParams& flow, std::shared_ptr<TaskArrivals> arrivals) override;
    Result<std::unique_ptr<ResultTable>> close_task(unsigned worker, std::uint64_t instance,
                                                    bool failed) override;
    Result<FlowRxStats> flow_stats(std::uint64_t instance, ChannelId channel) override;

    Result<std::shared_ptr<GroupMemory>> make_memory(std::size_t arena_bytes, std::uint32_t user) override;
    Result<> begin_group(GroupStart start) override;
    Result<GroupState> group_state(std::uint64_t instance, ChannelId channel) override;
    Result<> set_fan_out(std::uint64_t instance, ChannelId channel, bool fan_out) override;
    Result<> settle_group(std::uint64_t instance, ChannelId channel, std::uint64_t last,
                          std::uint64_t dead) override;
    Result<> end_group(std::uint64_t instance, ChannelId channel) override;
    [[nodiscard]] const ArenaBudget& arenas() const { return arenas_; }

    // By worker. Fails if one of them does not answer: a part of the sum would look as if counters had
    // fallen.
    [[nodiscard]] Result<std::vector<WorkerTotals>> totals();
    // Sum over all workers.
    [[nodiscard]] std::uint64_t counter(AgentCounter counter) const;

 private:
    Result<> route_group(std::uint64_t instance, std::optional<unsigned> worker);

    ArenaBudget arenas_;  // outlives the groups
    std::vector<std::unique_ptr<Worker>> workers_;
};

[[nodiscard]] WorkerTotals sum_of(std::span<const WorkerTotals> workers);

}  // namespace ask
