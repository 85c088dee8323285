// SPDX-License-Identifier: Apache-2.0
//
// What the agent itself counts, beside the core's receiver (lib/engine/receiver.h), the sockets
// (lib/xsk/xsk_socket.h) and the steering program (lib/abi/counters.def).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ask {

// (name, class, text)
#define ASK_AGENT_COUNTERS(X)                                                                          \
    X(rx_data, traffic, "packets that came for this host's receivers")                                 \
    X(rx_acks, traffic, "packets that came for this host's channels")                                  \
    X(rx_handed_over, traffic, "packets given to the worker that owns their channel")                  \
    X(tx_packets, traffic, "packets that channels sent to other hosts")                                \
    X(tx_acks, traffic, "acknowledgements sent to other hosts")                                        \
    X(local_packets, traffic, "packets and acknowledgements between tasks of this host")               \
    X(rx_values, traffic, "packets of value streams that came for this host's groups")                 \
    X(tx_values, traffic, "packets of value streams that were sent to other hosts")                    \
    X(rx_no_group, drop, "packet of a group that does not run here")                                   \
    X(rx_bad_values, drop, "packet that is not its group's, or not what it says")                      \
    X(rx_bad_frame, drop, "not a whole UDP packet of IPv4 or IPv6")                                    \
    X(rx_bad_source, drop, "comes from another address than its channel's host")                       \
    X(rx_no_channel, drop, "acknowledgement for a channel that is not here")                           \
    X(drop_inbox_full, drop, "a worker's inbox was full")                                              \
    X(drop_ack_no_room, drop, "no room to send an acknowledgement")                                    \
    X(refused_sessions, drop, "applications turned away at max_sessions")                              \
    X(refused_connections, drop, "connections turned away at the control port and socket, or cut off") \
    X(refused_waits, drop, "calls answered at once because too many were held back")                   \
    X(tasks_without_region, drop, "tasks received here that their switch had no memory for")           \
    X(senders_without_switch, drop, "senders that joined here without their own switch")               \
    X(progress_skipped, drop, "progress messages that an application did not read in time")            \
    X(results_refused, drop, "results that were not made of exactly what was sent")                    \
    X(kept_results, traffic, "results that were not taken, and kept for ask-recv --again")             \
    X(drop_kept_expired, drop, "kept results that nobody has taken in time")                           \
    X(drop_kept_number, drop, "kept results that made room for newer ones")                            \
    X(drop_kept_memory, drop, "kept results that made room for a task's table")                        \
    X(tables_reseeded, drop, "tables given another seed: keys crowded in one place of them")           \
    X(tables_crowded, drop, "tables that another seed, several times, has not helped")                 \
    X(blocks_held, drop, "blocks of results that applications held after they were taken")

enum class AgentCounter : std::uint8_t {
#define ASK_X(name, class_, text) k_##name,
    ASK_AGENT_COUNTERS(ASK_X)
#undef ASK_X
        kCount
};

// Written by any thread, read by any; a value may be a moment old.
class AgentCounters {
 public:
    void add(AgentCounter counter, std::uint64_t n = 1) {
        values_[static_cast<std::size_t>(counter)].fetch_add(n, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t get(AgentCounter counter) const {
        return values_[static_cast<std::size_t>(counter)].load(std::memory_order_relaxed);
    }

 private:
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(AgentCounter::kCount)> values_{};
};

}  // namespace ask
