// SPDX-License-Identifier: Apache-2.0
//
// A data channel's sending end (ASK section 3.3, design section 6): a persistent sequence of
// packets with one sliding window, serving tasks one after another. Retransmits on an
// adaptive timeout (RFC 6298 with a configurable floor), never on reordering, since switch
// and receiver both acknowledge; ECN echo and loss move a window <= W (AIMD, as ATP).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lib/engine/ack_times.h"
#include "lib/engine/packet.h"
#include "lib/tuples/packer.h"
#include "lib/tuples/types.h"

namespace ask {

struct SenderConfig {
    std::uint32_t window = ASK_WINDOW;      // most packets in flight, <= ASK_WINDOW
    std::uint32_t initial_window = 32;      // congestion window at the start, packets
    Nanos rto_floor = 2 * kMillisecond;     // the paper: 100 us fixed
    Nanos rto_initial = 20 * kMillisecond;  // before the first RTT sample
    Nanos rto_ceiling = 1 * kSecond;
    std::uint32_t hold = 4096;  // PackerConfig::hold
    std::uint32_t payload_limit = 1472;
};

struct SenderStats {
    PackerStats packer;
    std::uint64_t tuples_merged = 0;  // before they came here, which only the caller knows
    std::uint64_t packets_sent = 0;   // first transmissions: DATA, LONG and FIN
    std::uint64_t packets_data = 0;
    std::uint64_t packets_long = 0;
    std::uint64_t packets_acked_by_switch = 0;
    std::uint64_t packets_acked_by_receiver = 0;
    std::uint64_t retransmissions = 0;
    std::uint64_t acks_ignored = 0;  // not in flight any more
    std::uint64_t acks_bad = 0;      // malformed, or the check does not fit
    std::uint64_t ecn_echoes = 0;
};

// Not thread-safe: one worker owns it.
class SenderChannel {
 public:
    SenderChannel(ChannelId id, std::uint32_t incarnation, const SenderConfig& config);
    ~SenderChannel();
    SenderChannel(SenderChannel&&) noexcept;
    SenderChannel& operator=(SenderChannel&&) noexcept;

    [[nodiscard]] ChannelId id() const;
    [[nodiscard]] std::uint32_t incarnation() const;
    [[nodiscard]] std::uint64_t next_seq() const;  // what a joining task gets as first_seq
    [[nodiscard]] bool idle() const;               // no task: begin() may be called

    // Starts a task. params.channel, incarnation and first_seq must be this channel's;
    // resets the statistics. `hold` (0: as configured) overrides the configuration for this
    // task. kExists while another task is on, kUnsupported if its packets are too long.
    Result<> begin(const FlowParams& params, std::uint32_t hold, Nanos now);
    [[nodiscard]] bool has_room() const;  // may offer() be called
    void offer(std::string_view key, std::int64_t value);
    void finish();  // no more tuples: flush, then FIN once all is acknowledged

    // Writes the next packet due at `now`, new or again, as a sealed UDP payload into `out`
    // (payload_limit bytes). Returns its length, 0 when nothing is due.
    std::size_t next_packet(Nanos now, std::span<std::byte> out);
    // A UDP payload that came for this channel's port. Never trusted.
    void on_packet(Nanos now, std::span<const std::byte> payload, Ports ports);
    // When next_packet() should be called again at the latest: a time already given when a packet
    // is due, kNever if only input can help.
    [[nodiscard]] Nanos deadline() const;

    // The task's FIN is acknowledged; the channel is idle again after take_stats().
    [[nodiscard]] bool fin_acked() const;
    // Ends a task whose FIN is acknowledged; returns its statistics.
    SenderStats end();
    // Gives a task up. Its packets may still be under way, so the channel takes a new
    // incarnation (and seq starts at 1 again).
    SenderStats abandon(std::uint32_t new_incarnation);

    [[nodiscard]] const SenderStats& stats() const;
    // When something was last acknowledged, or, if that is later, first sent after nothing was in flight.
    [[nodiscard]] Nanos last_progress() const;
    [[nodiscard]] std::uint32_t in_flight() const;
    [[nodiscard]] double window() const;  // congestion window, packets
    [[nodiscard]] Nanos srtt() const;
    // Of the task's packets, or of the last one's while there is none.
    [[nodiscard]] const AckTimes& ack_times() const;
    [[nodiscard]] Ports ports() const;  // of packets sent: channel port -> ASK_UDP_PORT

 private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask
