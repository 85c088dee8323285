// SPDX-License-Identifier: Apache-2.0
//
// A worker's commands on sending channels: from a task's begin to its end.
#include <sys/epoll.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "agent/worker.h"
#include "agent/worker/now.h"
#include "agent/worker/stream.h"

namespace ask {

// Also of what a packet claims: a port that is no channel's is nobody's.
WorkerCore::Stream* WorkerCore::find(std::uint16_t port) const {
    const std::size_t number = std::size_t{port} - ASK_CHANNEL_PORT_BASE;
    return number < streams_.size() ? streams_[number].get() : nullptr;
}

Result<> WorkerCore::add_channel(std::uint16_t port, std::uint32_t incarnation) {
    const std::size_t number = std::size_t{port} - ASK_CHANNEL_PORT_BASE;
    if (number >= ASK_MAX_CHANNELS_PER_HOST) {
        return Error(Errc::kInternal, "channel " + std::to_string(port) + ": no channel's port");
    }
    if (find(port) != nullptr) {
        return Error(Errc::kExists, "channel " + std::to_string(port));
    }
    streams_.resize(std::max(streams_.size(), number + 1));
    streams_[number] =
        std::make_unique<Stream>(ChannelId{options_.own_address, port}, incarnation, options_.sender);
    return {};
}

// In the loop from now on.
void WorkerCore::wake_stream(Stream& stream, std::shared_ptr<Mailbox> mailbox) {
    if (!stream.mailbox) {
        active_.push_back(&stream);
    }
    stream.mailbox = std::move(mailbox);
}

void WorkerCore::put_to_rest(Stream& stream) {
    drop_ring(stream);
    if (stream.mailbox) {
        add(ended_senders_, stats_of(stream));
        ended_ack_times_.add(stream.channel.ack_times());
    }
    stream.mailbox.reset();
    std::erase(active_, &stream);
}

Result<> WorkerCore::begin_channel(Stream& stream, const FlowParams& flow) const {
    if (stream.packer) {
        return stream.channel.begin(flow, *stream.packer, now_ns());  // says which task it still serves
    }
    const PackerConfig packing = packer_config(flow, options_.sender);
    ASK_TRY(check(packing), "task instance " + std::to_string(flow.instance));
    stream.packer.emplace(packing);
    auto begun = stream.channel.begin(flow, *stream.packer, now_ns());
    if (!begun) {
        stream.packer.reset();
    }
    return begun;
}

Result<> WorkerCore::begin(StreamStart start) {
    Stream* const stream = find(start.flow.channel.port);
    if (stream == nullptr) {
        return Error(Errc::kInternal, "no channel " + std::to_string(start.flow.channel.port));
    }
    // Edge-triggered: while the channel has no room the event stays unread.
    // Every intake of this agent was made by its workers.
    auto intake = std::static_pointer_cast<RingIntake>(start.intake);
    ASK_TRY(watch(intake->ring.data_event(), EPOLLIN | EPOLLET), "tuple ring");
    stream->intake = std::move(intake);
    if (auto begun = begin_channel(*stream, start.flow); !begun) {
        drop_ring(*stream);
        return begun;
    }
    stream->addresses = start.addresses;
    stream->addresses.source_port = stream->channel.ports().source;
    stream->addresses.dest_port = stream->channel.ports().dest;
    stream->local = start.local;
    if (!start.local) {
        stream->channel.limit_rate(Pace(start.max_rate, start.addresses.header_bytes(), now_ns()));
    }
    stream->counts = start.counts;
    stream->merged = 0;
    stream->finish_wanted = stream->finish_called = stream->fin_reported = false;
    wake_stream(*stream, std::move(start.mailbox));
    return {};
}

void WorkerCore::set_addresses(std::uint16_t port, const UdpAddresses& addresses) {
    if (Stream* const stream = find(port); stream != nullptr) {
        stream->addresses.source_mac = addresses.source_mac;
        stream->addresses.dest_mac = addresses.dest_mac;
    }
}

void WorkerCore::finish(std::uint16_t port) {
    if (Stream* const stream = find(port); stream != nullptr) {
        stream->finish_wanted = true;
    }
}

void WorkerCore::drop_ring(Stream& stream) const {
    if (const TupleRingConsumer* const ring = stream.ring(); ring != nullptr) {
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ring->data_event(), nullptr);
        stream.merged = ring->merged();
        stream.intake.reset();
    }
}

SenderStats WorkerCore::stats_of(const Stream& stream) {
    return {stream.channel.stats(), stream.packer ? stream.packer->stats() : PackerStats{},
            stream.intake ? stream.intake->ring.merged() : stream.merged};
}

SenderStats WorkerCore::end(std::uint16_t port) {
    Stream* const stream = find(port);
    if (stream == nullptr) {
        return {};
    }
    put_to_rest(*stream);
    const SenderStats last = stats_of(*stream);
    stream->channel.end();
    stream->packer.reset();
    return last;
}

SenderStats WorkerCore::abandon(std::uint16_t port, std::uint32_t new_incarnation) {
    Stream* const stream = find(port);
    if (stream == nullptr) {
        return {};
    }
    put_to_rest(*stream);
    const SenderStats last = stats_of(*stream);
    stream->channel.abandon(new_incarnation);
    stream->packer.reset();
    return last;
}

StreamState WorkerCore::stream_state(std::uint16_t port) const {
    StreamState state;
    if (const Stream* const stream = find(port); stream != nullptr) {
        const SenderChannel& channel = stream->channel;
        state.stats = stats_of(*stream);
        state.next_seq = channel.next_seq();
        state.incarnation = channel.incarnation();
        state.in_flight = channel.in_flight();
        state.window = channel.window();
        state.srtt = channel.srtt();
        state.since_progress = channel.in_flight() > 0 ? now_ns() - channel.last_progress() : 0;
    }
    return state;
}

AckTimes WorkerCore::ack_times(std::uint16_t port) const {
    const Stream* const stream = find(port);
    return stream != nullptr ? stream->channel.ack_times() : AckTimes();
}

}  // namespace ask
