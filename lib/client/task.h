// SPDX-License-Identifier: Apache-2.0
//
// What the client API tells an application about tasks: operators, statistics, progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace ask::client {

// How the values of equal keys are combined. kCount: every tuple counts as 1, whatever its value.
enum class TaskOp : std::uint8_t { kSum, kCount, kMin, kMax };

// "sum", "count", "min", "max".
[[nodiscard]] std::string_view to_string(TaskOp op);
[[nodiscard]] std::optional<TaskOp> parse_task_op(std::string_view text);

// An id is 1 to 63 of A-Z a-z 0-9 _ - (it names directories and pins). kUsage otherwise.
Result<> check_task_id(std::string_view id);

// The agent's socket: `chosen` if not empty, else the environment's ASK_AGENT, else /run/ask/agent.sock. A
// leading "unix:" is taken off.
[[nodiscard]] std::string agent_socket_path(std::string_view chosen = {});

// Who keeps an aggregator of the switch that two keys want.
enum class TaskPolicy : std::uint8_t {
    kAuto,       // the switch chooses
    kFirstCome,  // the paper's: whoever came first
    kReplace,    // a hotter key takes a colder one's place
};

// Tuples that the switch left to the receiver, by the reason it had.
struct ReceiverTuples {
    std::uint64_t collision = 0;   // another key held the aggregator
    std::uint64_t long_key = 0;    // key or value fits no slot
    std::uint64_t overflow = 0;    // the sum would have left int32
    std::uint64_t contention = 0;  // several CPUs at one aggregator
    std::uint64_t no_region = 0;   // no switch, or one without a region for the task
    [[nodiscard]] std::uint64_t total() const {
        return collision + long_key + overflow + contention + no_region;
    }
};

// Where a send's or a task's tuples went. After success: tuples_in = tuples_merged + tuples_sent, and
// tuples_sent = tuples_switch + tuples_receiver.total().
struct TaskStats {
    std::uint64_t tuples_in = 0;      // handed in
    std::uint64_t tuples_merged = 0;  // joined with an equal key by the sender, before packing
    std::uint64_t tuples_sent = 0;
    std::uint64_t tuples_switch = 0;  // aggregated on the switch
    // Partial results that hotter keys took out of aggregators, and that went on to the receiver.
    std::uint64_t tuples_evicted = 0;
    ReceiverTuples tuples_receiver;
    std::uint64_t packets_sent = 0;  // first transmissions
    std::uint64_t packets_acked_by_switch = 0;
    std::uint64_t retransmissions = 0;
    std::uint64_t slots_filled = 0;
    std::uint64_t slots_offered = 0;               // slots x rows of all DATA packets
    std::vector<std::uint64_t> packets_by_tuples;  // DATA packets that carry 0, 1, 2 ... tuples
    double seconds = 0;
};

// The part of a task that one sender had.
struct NamedStats {
    std::string name;  // host name and address
    TaskStats stats;
};

// What is known while a send or a receive is under way.
struct TaskProgress {
    TaskStats stats;
    std::string state;  // for people, e.g. "waiting for senders"
    std::uint32_t senders_joined = 0;
    std::uint32_t senders_finished = 0;
};

}  // namespace ask::client
