// SPDX-License-Identifier: Apache-2.0
//
// A data channel's sending end (ASK section 3.3, design section 6): a persistent sequence of
// packets with one sliding window, serving tasks one after another. Retransmits on an
// adaptive timeout (RFC 6298 with a configurable floor), never on reordering, since switch
// and receiver both acknowledge; ECN echo and loss move a window <= W (AIMD, as ATP). What the packets carry
// comes from a source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/engine/ack_times.h"
#include "lib/engine/congestion.h"
#include "lib/engine/pace.h"
#include "lib/engine/packet.h"
#include "lib/engine/packet_source.h"
#include "lib/engine/send_window.h"
#include "lib/engine/types.h"

namespace ask {

struct ChannelConfig {
    std::uint32_t window = ASK_WINDOW;      // most packets in flight, <= ASK_WINDOW
    std::uint32_t initial_window = 32;      // congestion window at the start, packets
    Nanos rto_floor = 2 * kMillisecond;     // the paper: 100 us fixed
    Nanos rto_initial = 20 * kMillisecond;  // before the first RTT sample
    Nanos rto_ceiling = 1 * kSecond;
    std::uint32_t payload_limit = 1472;  // longest UDP payload, bytes: over IPv4 MTU - 28
};

struct ChannelStats {
    std::uint64_t packets_sent = 0;  // first transmissions: DATA, LONG, VAR and FIN
    std::uint64_t packets_data = 0;
    std::uint64_t packets_long = 0;
    std::uint64_t packets_var = 0;
    std::uint64_t payload_bytes = 0;  // of first transmissions, the UDP payloads
    std::uint64_t packets_acked_by_switch = 0;
    std::uint64_t packets_acked_by_receiver = 0;
    std::uint64_t retransmissions = 0;
    std::uint64_t acks_ignored = 0;  // not in flight any more
    std::uint64_t acks_bad = 0;      // malformed, or the check does not fit
    std::uint64_t ecn_echoes = 0;
};

// Not thread-safe: one worker owns it.
//
// A packet is `sent` (thought to be under way) or, after its timeout, `lost` (waiting to be
// sent again); both count for the sliding window, only the former for the congestion window,
// which therefore bounds retransmissions too. seqs are used from base_ (the oldest not
// acknowledged) up to next_seq_; place seq % W keeps the packet.
class SenderChannel {
 public:
    SenderChannel(ChannelId id, std::uint32_t incarnation, const ChannelConfig& config);
    SenderChannel(const SenderChannel&) = delete;
    SenderChannel& operator=(const SenderChannel&) = delete;

    [[nodiscard]] ChannelId id() const { return id_; }
    [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }
    [[nodiscard]] std::uint64_t next_seq() const { return next_seq_; }  // a joining task's first_seq
    [[nodiscard]] bool idle() const { return source_ == nullptr; }      // no task: begin() may be called
    [[nodiscard]] const ChannelConfig& config() const { return config_; }

    // Starts a task whose packets come from `source`, which stays until the task's end and whose bodies fit
    // the payload limit. The flow's channel, incarnation and first_seq must be this channel's; resets the
    // statistics. kExists while another task is on.
    Result<> begin(const FlowTerms& flow, PacketSource& source, Nanos now);
    // For the rest of the task; at first packets leave as fast as acknowledgements let them.
    void limit_rate(const Pace& pace) { pace_ = pace; }
    void finish();  // the source gets no more: flush, then FIN once all is acknowledged

    // Writes the next packet due at `now`, new or again, as a sealed UDP payload into `out`
    // (payload_limit bytes). Returns its length, 0 when nothing is due.
    std::size_t next_packet(Nanos now, std::span<std::byte> out);
    // A UDP payload that came for this channel's port. Never trusted.
    void on_packet(Nanos now, std::span<const std::byte> payload, Ports ports);
    // When next_packet() should be called again at the latest: a time already given when a packet
    // is due, kNever if only input can help.
    [[nodiscard]] Nanos deadline() const;

    // The task's FIN is acknowledged; the channel is idle again after end().
    [[nodiscard]] bool fin_acked() const { return fin_acked_; }
    // Ends a task whose FIN is acknowledged; its statistics stay until the next one begins.
    void end();
    // Gives a task up. Its packets may still be under way, so the channel takes a new
    // incarnation (and seq starts at 1 again).
    void abandon(std::uint32_t new_incarnation);

    [[nodiscard]] const ChannelStats& stats() const { return stats_; }
    // When something was last acknowledged, or, if that is later, first sent after nothing was in flight.
    [[nodiscard]] Nanos last_progress() const { return last_progress_; }
    [[nodiscard]] std::uint32_t in_flight() const { return sent_.count() + lost_.count(); }
    [[nodiscard]] double window() const { return window_.packets(); }  // congestion window, packets
    [[nodiscard]] Nanos srtt() const { return timer_.srtt(); }
    // Of the task's packets, or of the last one's while there is none.
    [[nodiscard]] const AckTimes& ack_times() const { return ack_times_; }
    // Of packets sent: channel port -> ASK_UDP_PORT.
    [[nodiscard]] Ports ports() const { return {.source = id_.port, .dest = ASK_UDP_PORT}; }

 private:
    enum class AckVerdict : std::uint8_t { kBad, kIgnored, kAgain, kFits };

    // Of a place in the store: a packet, and what its header may be shorter than the longest.
    [[nodiscard]] std::size_t stride() const {
        return std::size_t{config_.payload_limit} + std::size_t{4} * ASK_MAX_ROWS;
    }
    [[nodiscard]] std::span<std::byte> bytes_of(std::uint32_t at) {
        return std::span(store_).subspan(at * stride(), stride());
    }
    static std::uint32_t place_of_seq(std::uint64_t seq) {
        return static_cast<std::uint32_t>(seq % ASK_WINDOW);
    }
    [[nodiscard]] bool window_open() const {
        return next_seq_ - base_ < config_.window && sent_.count() < window_.whole();
    }
    [[nodiscard]] bool fin_due() const;
    [[nodiscard]] Nanos due_at(const Place& place) const {
        return place.sent_at + std::min(place.timeout, timer_.timeout());
    }
    void expire(Nanos now);
    // Fills the place of next_seq_ with a new packet. False if there is none.
    bool build_packet();
    void seal_packet(Header header, std::size_t body_bytes, std::span<const std::uint32_t> bitmaps);
    std::size_t transmit(std::uint32_t at, Nanos now, std::span<std::byte> out);
    [[nodiscard]] AckVerdict judge(const PacketView& ack, Ports ports) const;
    void take_ack(Nanos now, const PacketView& ack);

    ChannelId id_;
    std::uint32_t incarnation_;
    ChannelConfig config_;
    std::uint64_t base_ = 1;
    std::uint64_t next_seq_ = 1;
    PacketSource* source_ = nullptr;  // only while a task is on
    BodyTerms body_;
    std::uint32_t most_bitmaps_ = 0;  // of a packet
    FlowTerms flow_;
    std::optional<CheckKey> key_;
    bool finished_ = false;
    bool fin_sent_ = false;
    bool fin_acked_ = false;
    AckTimes ack_times_;
    Nanos last_progress_ = 0;
    RetransmitTimer timer_;
    CongestionWindow window_;
    Pace pace_;
    PlaceList sent_;
    PlaceList lost_;
    PlaceList::Places places_{};
    std::vector<std::byte> store_;
    std::uint64_t transmissions_ = 0;
    Nanos now_ = 0;  // latest time heard of
    ChannelStats stats_;
};

}  // namespace ask
