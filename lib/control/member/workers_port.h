// SPDX-License-Identifier: Apache-2.0
//
// The workers of a host, which own its channels and take its packets in. Every call may be refused (kLimit,
// kAborted) or find its worker silent (kInternal). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/result.h"
#include "lib/control/member/application_port.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/receive/task_arrivals.h"
#include "lib/engine/receiver.h"
#include "lib/net/frame.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/sender.h"
#include "lib/tuples/types.h"

namespace ask {

// Where an application puts its tuples for a channel. Made by the workers that take them.
class TupleIntake : public Attachment {
 public:
    [[nodiscard]] virtual std::size_t bytes() const = 0;
};

// What a sending task is about, for the worker that owns its channel.
struct StreamStart {
    FlowParams flow;
    bool counts = false;         // values are counts: 1 or more
    bool local = false;          // the receiver is on this host
    std::uint64_t max_rate = 0;  // bits a second of frames to another host; 0: as fast as it goes
    UdpAddresses addresses;      // of its packets; ports are the channel's
    std::shared_ptr<TupleIntake> intake;
    std::shared_ptr<Mailbox> mailbox;
};

struct StreamState {
    SenderStats stats;
    std::uint64_t next_seq = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t in_flight = 0;
    double window = 0;
    Nanos srtt = 0;
    Nanos since_progress = 0;  // while packets are in flight; else 0
};

class WorkersPort {
 public:
    WorkersPort() = default;
    virtual ~WorkersPort() = default;
    WorkersPort(const WorkersPort&) = delete;
    WorkersPort& operator=(const WorkersPort&) = delete;

    // Sending channels.
    virtual Result<> add_channel(ChannelId channel, std::uint32_t incarnation) = 0;
    // `bytes`: a power of two.
    virtual Result<std::shared_ptr<TupleIntake>> make_intake(std::size_t bytes) = 0;
    virtual Result<> begin(StreamStart start) = 0;
    virtual Result<> set_addresses(ChannelId channel, const UdpAddresses& addresses) = 0;
    // The application has handed in its last tuple.
    virtual Result<> finish(ChannelId channel) = 0;
    // All of the task is acknowledged: what it came to.
    virtual Result<SenderStats> end(ChannelId channel) = 0;
    // Gives up whatever is under way; the channel goes on as another incarnation.
    virtual Result<SenderStats> abandon(ChannelId channel, std::uint32_t new_incarnation) = 0;
    virtual Result<StreamState> stream_state(ChannelId channel) = 0;

    // Receiving tasks, of which each worker has a part.
    [[nodiscard]] virtual unsigned size() const = 0;
    // `in_parts`: a table that is full is to be exchanged, which kPartFull says once; else the task has
    // failed.
    virtual Result<> open_task(unsigned worker, std::uint64_t instance, ResultTable table,
                               std::shared_ptr<Mailbox> mailbox, bool in_parts) = 0;
    // Of a task that is taken in parts: sets `fresh` in the place of the table that the channel goes to.
    virtual Result<ResultTable> exchange_table(std::uint64_t instance, ChannelId channel,
                                               ResultTable fresh) = 0;
    // `arrivals`: where what comes of the flow counts; null: nobody watches it.
    virtual Result<> join(const FlowParams& flow, std::shared_ptr<TaskArrivals> arrivals) = 0;
    // Stops taking packets of the task in; its table if it is whole, nothing if it failed or is unknown.
    virtual Result<std::unique_ptr<ResultTable>> close_task(unsigned worker, std::uint64_t instance,
                                                            bool failed) = 0;
    virtual Result<FlowRxStats> flow_stats(std::uint64_t instance, ChannelId channel) = 0;
};

}  // namespace ask
