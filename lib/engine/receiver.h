// SPDX-License-Identifier: Apache-2.0
//
// The receiving end (ASK section 3.3, design section 7): dedupes by (channel, incarnation,
// seq) with state that outlives tasks, sees gaps because the switch swallows packets, accepts
// only a task's own interval of seqs under the mark that was joined, hands what is new to the task's sink,
// and acknowledges what that took.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "lib/abi/receiver_counters.h"
#include "lib/engine/packet.h"
#include "lib/engine/packet_sink.h"
#include "lib/engine/types.h"

namespace ask {

enum class ReceiverCounter : std::uint8_t {
#define ASK_X(name, class_, text) k_##name,
    ASK_RECEIVER_COUNTERS(ASK_X)
#undef ASK_X
        kCount
};

// Where the packets of one flow went at the receiver.
struct FlowRxStats {
    std::uint64_t packets_accepted = 0;
    std::uint64_t packets_duplicate = 0;
    std::uint64_t packets_bad_mark = 0;
    std::uint64_t packets_other_switch = 0;
    std::uint64_t items_data = 0;  // as the sink counts them
    std::uint64_t items_long = 0;
    std::uint64_t items_var = 0;
    [[nodiscard]] std::uint64_t items() const { return items_data + items_long + items_var; }
    bool fin = false;
    std::uint64_t last_seq = 0;    // of the FIN
    std::uint64_t items_sent = 0;  // as it says
};

struct RxVerdict {
    ReceiverCounter counter = ReceiverCounter::k_malformed;
    std::size_t ack_bytes = 0;  // 0: send nothing; else this much of `ack` is a UDP payload
    bool fin = false;           // this packet is the flow's FIN, for the first time
    std::uint32_t items = 0;    // of DATA, accepted for the first time
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
    Receiver() : Receiver(Limits{}) {}
    explicit Receiver(const Limits& limits) : limits_(limits) {}

    // Joins a flow; its packets go to `sink`, which stays until end_task(). Repeating the same
    // join is fine and changes nothing. kLimit when full; kExists when the channel is in another
    // task whose FIN has not come. With another incarnation than before, the channel starts
    // afresh and that task's flow is over: its packets are refused (unknown_flow).
    Result<> join(const FlowTerms& terms, PacketSink* sink);
    // Ends all flows of a task: what still comes of them is acknowledged (a FIN whose ACK was
    // lost), and changes nothing. `failed` tasks' packets are no longer acknowledged, nor are
    // those of a flow whose FIN has not come: they are refused (unknown_flow).
    void end_task(std::uint64_t instance, bool failed);

    // A UDP payload for ASK_UDP_PORT. `ack` has room for sizeof(ask_hdr).
    RxVerdict on_packet(std::span<const std::byte> payload, Ports ports, bool ecn_ce,
                        std::span<std::byte> ack);

    [[nodiscard]] FlowRxStats flow_stats(std::uint64_t instance, ChannelId channel) const;
    [[nodiscard]] std::uint64_t counter(ReceiverCounter counter) const {
        return counters_[static_cast<std::size_t>(counter)];
    }

 private:
    struct FlowName {
        std::uint64_t instance = 0;
        ChannelId channel;
        auto operator<=>(const FlowName&) const = default;
    };
    struct FlowNameHash {
        std::size_t operator()(const FlowName& name) const {
            return ChannelIdHash{}(name.channel) ^ (name.instance * 0x9e3779b97f4a7c15ULL);
        }
    };

    // What came of a channel's packets, whatever the task: of each place of the window the
    // highest seq.
    struct ChannelState {
        std::uint32_t incarnation = 0;
        FlowName user;  // the flow that uses it now, or used it last
        std::array<std::uint64_t, ASK_WINDOW> highest{};
    };

    enum class Phase : std::uint8_t {
        kOpen,      // packets may come
        kComplete,  // its FIN is in: everything before was acknowledged, nothing is new any more
        kEnded,     // its task has ended well
        kReplaced,  // its channel took another incarnation before its FIN
    };

    struct Flow {
        Flow(const FlowTerms& agreed, PacketSink* to, std::shared_ptr<ChannelState> by)
            : params(agreed), body(to->terms()), key(agreed.secret), sink(to), channel(std::move(by)) {}

        FlowTerms params;
        BodyTerms body;
        CheckKey key;
        PacketSink* sink;  // null once ended
        std::shared_ptr<ChannelState> channel;
        Phase phase = Phase::kOpen;
        std::uint64_t highest = 0;     // seq taken
        std::uint64_t last_rise = 0;   // of it, by the packet taken last
        std::uint32_t last_items = 0;  // that it brought
        FlowRxStats stats;
    };

    using Counter = ReceiverCounter;
    using Flows = std::unordered_map<FlowName, Flow, FlowNameHash>;
    enum class Age : std::uint8_t { kNew, kSeen, kStale };

    static Age age_of(const ChannelState& channel, std::uint64_t seq);
    Result<std::shared_ptr<ChannelState>> channel_for(const FlowTerms& params);
    bool forget_idle_channel();
    void forget_ended();
    [[nodiscard]] Flow* find(const Header& header);
    // The checks that need nothing but the packet and what was agreed.
    [[nodiscard]] static std::optional<Counter> refuse(const Flow& flow, const PacketView& packet,
                                                       Ports ports);
    static Counter take(Flow& flow, const PacketView& packet);
    static Counter take_body(Flow& flow, const PacketView& packet);
    static Counter take_fin(Flow& flow, const PacketView& packet);
    Counter judge(const PacketView& packet, Ports ports, RxVerdict& verdict, Flow*& flow);

    Limits limits_;
    Flows flows_;
    std::size_t ended_count_ = 0;
    std::deque<FlowName> ended_;  // oldest first
    std::unordered_map<ChannelId, std::shared_ptr<ChannelState>, ChannelIdHash> channels_;
    std::array<std::uint64_t, static_cast<std::size_t>(Counter::kCount)> counters_{};
};

}  // namespace ask
