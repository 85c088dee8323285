// SPDX-License-Identifier: Apache-2.0
//
// The receiving end (ASK section 3.3, design section 7): dedupes by (channel, incarnation,
// seq) with state that outlives tasks, sees gaps because the switch swallows packets, accepts
// only a task's own interval of seqs under the mark that was joined, aggregates what the
// switch left and LONG tuples, and acknowledges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/engine/packet.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/types.h"

namespace ask {

// Every way a packet can go at the receiver: exactly one each. (name, class, text)
#define ASK_RECEIVER_COUNTERS(X)                                             \
    X(accepted_data, traffic, "DATA, first time: aggregated, acknowledged")  \
    X(accepted_long, traffic, "LONG, first time: aggregated, acknowledged")  \
    X(accepted_fin, traffic, "FIN, first time: acknowledged")                \
    X(duplicate, traffic, "seen before: acknowledged again")                 \
    X(ended, traffic, "of a task that has ended: acknowledged again")        \
    X(stale, drop, "older than the channel's window")                        \
    X(malformed, drop, "no well-formed ASK packet")                          \
    X(unknown_flow, drop, "channel, incarnation or task not joined here")    \
    X(bad_check, drop, "keyed check does not fit")                           \
    X(bad_ports, drop, "UDP ports are not the channel's")                    \
    X(bad_mark, drop, "marked by another switch than joined: went round it") \
    X(bad_geometry, drop, "geometry or operator differ from the task's")     \
    X(bad_seq, drop, "outside the task's interval of seqs")                  \
    X(bad_record, drop, "a LONG record or a slot that no sender writes")     \
    X(table_full, drop, "the task's table cannot grow: not acknowledged")

enum class ReceiverCounter : std::uint8_t {
#define ASK_X(name, class_, text) k_##name,
    ASK_RECEIVER_COUNTERS(ASK_X)
#undef ASK_X
        kCount
};

// Where the tuples of one flow went at the receiver.
struct FlowRxStats {
    std::uint64_t packets_accepted = 0;
    std::uint64_t packets_duplicate = 0;
    std::uint64_t packets_bad_mark = 0;
    std::uint64_t tuples_data = 0;
    std::uint64_t tuples_long = 0;
    bool fin = false;
    std::uint64_t last_seq = 0;  // of the FIN
};

struct RxVerdict {
    ReceiverCounter counter = ReceiverCounter::k_malformed;
    std::size_t ack_bytes = 0;  // 0: send nothing; else this much of `ack` is a UDP payload
    bool fin = false;           // this packet is the flow's FIN, for the first time
    std::uint32_t tuples = 0;   // of DATA, accepted for the first time
    std::uint64_t advance = 0;  // by so much the highest seq that came of the flow has risen
    std::uint64_t instance = 0;
    ChannelId channel;
};

// All flows whose channels one worker owns. Not thread-safe. Bounded by `max_flows` live and
// as many ended ones (oldest forgotten first), and `max_channels` dedupe states.
class Receiver {
 public:
    struct Limits {
        std::size_t max_flows = 4096;
        std::size_t max_channels = 4096;
    };
    Receiver();
    explicit Receiver(const Limits& limits);
    ~Receiver();

    // Joins a flow; its tuples go to `table`, which outlives the flow. Repeating the same
    // join is fine and changes nothing. kLimit when full; kExists when the channel is in another
    // task whose FIN has not come. With another incarnation than before, the channel starts
    // afresh and that task's flow is over: its packets are refused (unknown_flow).
    Result<> join(const FlowParams& params, ResultTable* table);
    // Ends all flows of a task: what still comes of them is acknowledged (a FIN whose ACK was
    // lost), and changes nothing. `failed` tasks' packets are no longer acknowledged, nor are
    // those of a flow whose FIN has not come: they are refused (unknown_flow).
    void end_task(std::uint64_t instance, bool failed);

    // A UDP payload for ASK_UDP_PORT. `ack` has room for sizeof(ask_hdr).
    RxVerdict on_packet(std::span<const std::byte> payload, Ports ports, bool ecn_ce,
                        std::span<std::byte> ack);

    [[nodiscard]] FlowRxStats flow_stats(std::uint64_t instance, ChannelId channel) const;
    [[nodiscard]] std::uint64_t counter(ReceiverCounter counter) const;

 private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask
