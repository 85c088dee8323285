// SPDX-License-Identifier: Apache-2.0
//
// A sending channel's turn in the loop: tuples from its ring into packets, and these on their way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "agent/worker.h"
#include "agent/worker/group.h"
#include "agent/worker/now.h"
#include "agent/worker/stream.h"
#include "lib/tuples/tuple.h"

namespace ask {
namespace {

// Packets of a channel before the next one's turn, and a look at what came in (docs/decisions/0012).
constexpr std::size_t kTxBatch = 4;
constexpr std::size_t kTupleBatch = 4096;  // tuples of a ring before packets are looked at again

}  // namespace

bool WorkerCore::pump() {
    bool any = false;
    for (Stream* const stream : active_) {
        any = serve(*stream) || any;
        if (stream->channel.fin_acked() && !stream->fin_reported) {
            stream->fin_reported = true;
            stream->mailbox->post(SessionEvent::Kind::kFinAcked);
        }
    }
    for (auto& [instance, group] : groups_) {
        any = serve(*group) || any;
    }
    return any;
}

// A full channel has one packet to give, and then room for as many tuples: without taking turns each packet
// would cost its own way into the kernel and through the switch.
bool WorkerCore::serve(Stream& stream) {
    std::size_t sent = 0;
    bool any = false;
    for (bool more = true; more && sent < kTxBatch;) {
        more = pull_tuples(stream);
        const std::size_t packets = send_packets(stream, kTxBatch - sent);
        sent += packets;
        more = more || packets > 0;
        any = any || more;
    }
    return any;
}

// Some tuples from the ring into the packer, which has room. Returns how many, 0 if there are none.
Result<std::size_t> WorkerCore::move_tuples(Stream& stream) {
    TupleRingConsumer& ring = stream.intake->ring;
    Packer& packer = *stream.packer;
    const auto got = ring.peek(std::span(tuples_).first(std::min(tuples_.size(), packer.room())));
    ASK_PASS(got);
    const std::span<const Tuple> tuples = std::span(tuples_).first(*got);
    if (stream.counts) {
        const auto bad = std::ranges::find_if(tuples, [](const Tuple& tuple) { return tuple.value < 1; });
        if (bad != tuples.end()) {
            return Error(Errc::kInput,
                         "tuple ring: a count of " + std::to_string(bad->value) + "; they start at 1");
        }
    }
    const std::size_t taken = packer.add(tuples);
    ring.pop(tuples.first(taken));
    return taken;
}

// Moves tuples from the application's ring into the channel, as many as have room.
bool WorkerCore::pull_tuples(Stream& stream) {
    TupleRingConsumer* const ring = stream.ring();
    if (ring == nullptr) {
        return false;
    }
    std::size_t n = 0;
    bool empty = false;
    while (!empty && n < kTupleBatch && stream.packer->has_room()) {
        const auto moved = move_tuples(stream);
        if (!moved) {
            stream.mailbox->post(SessionEvent{SessionEvent::Kind::kRingBroken, {}, moved.error()});
            drop_ring(stream);
            return true;
        }
        n += *moved;
        empty = *moved == 0;
    }
    if (n > 0) {
        ring->release();
    }
    if (empty && stream.finish_wanted && !stream.finish_called) {
        stream.finish_called = true;
        stream.channel.finish();
        drop_ring(stream);
        return true;
    }
    return n > 0;
}

std::size_t WorkerCore::send_packets(Stream& stream, std::size_t most) {
    const Nanos now = now_ns();
    std::size_t sent = 0;
    while (sent < most && (stream.local ? send_local(stream, now) : send_remote(stream, now))) {
        ++sent;
    }
    return sent;
}

bool WorkerCore::send_remote(Stream& stream, Nanos now) {
    XskSocket& socket = way_out(stream.addresses.source_mac, stream.channel.id().port);
    const auto frame = socket.take();
    if (!frame) {
        return false;
    }
    const std::size_t bytes = stream.channel.next_packet(
        now, frame->bytes.subspan(stream.addresses.header_bytes(), options_.sender.payload_limit));
    if (bytes == 0) {
        socket.recycle(*frame);
        return false;
    }
    // A frame that is dropped here is one that got lost on the way: it is sent again.
    if (socket.send(*frame, write_frame_header(frame->bytes, stream.addresses, bytes))) {
        count(AgentCounter::k_tx_packets);
    }
    return true;
}

bool WorkerCore::send_local(Stream& stream, Nanos now) {
    const std::size_t bytes = stream.channel.next_packet(now, scratch_);
    if (bytes == 0) {
        return false;
    }
    deliver_local(std::span(scratch_).first(bytes), stream.channel.ports());
    return true;
}

bool WorkerCore::arm() {
    for (Stream* const stream : active_) {
        if (stream->intake && stream->packer->has_room() && stream->intake->ring.arm()) {
            return false;
        }
    }
    // What is in the ring of a group that has failed stays there.
    return std::ranges::none_of(
        groups_, [](auto& item) { return !item.second->failed && item.second->memory->ring.arm(); });
}

Nanos WorkerCore::deadline() const {
    Nanos first = kNever;
    for (const auto& [instance, group] : groups_) {
        first = std::min(first, group->deadline(now_ns()));
    }
    for (const Stream* const stream : active_) {
        first = std::min(first, stream->channel.deadline());
    }
    return first;
}

}  // namespace ask
