// SPDX-License-Identifier: Apache-2.0
//
// A worker's channel and the task that it sends for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "agent/worker.h"

namespace ask {

struct WorkerCore::Stream {
    Stream(ChannelId id, std::uint32_t incarnation, const SenderConfig& config)
        : channel(id, incarnation, config) {}

    SenderChannel channel;
    std::optional<Packer> packer;  // what the channel sends, while it has a task
    UdpAddresses addresses;
    bool local = false;
    bool counts = false;
    std::uint64_t merged = 0;    // by the application, once its ring is gone
    bool finish_wanted = false;  // the application has written its last tuple
    bool finish_called = false;
    bool fin_reported = false;
    std::shared_ptr<RingIntake> intake;  // null: it has no task, or the application has handed in everything
    std::shared_ptr<Mailbox> mailbox;

    [[nodiscard]] TupleRingConsumer* ring() const { return intake ? &intake->ring : nullptr; }
};

}  // namespace ask
