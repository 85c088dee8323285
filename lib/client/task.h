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
enum class TaskOp : std::uint8_t {
#define ASK_OPERATOR(NAME, Name, number, text) k##Name,
#define ASK_OPERATOR_AS(NAME, Name, AS, As, text) k##Name,
#include "lib/abi/operators.def"
};

// "sum", "count", "min", "max".
[[nodiscard]] const std::vector<std::string>& task_op_names();
[[nodiscard]] std::string_view to_string(TaskOp op);
[[nodiscard]] std::optional<TaskOp> parse_task_op(std::string_view text);

// The agent's socket: `chosen` if not empty, else the environment's ASK_AGENT, else /run/ask/agent.sock. A
// leading "unix:" is taken off.
[[nodiscard]] std::string agent_socket_path(std::string_view chosen = {});

// Who keeps an aggregator of the switch that two keys want.
enum class TaskPolicy : std::uint8_t {
    kAuto,  // the switch chooses
#define ASK_POLICY(NAME, Name, number, text, meaning) k##Name,
#include "lib/abi/policies.def"
};

// "auto", "first-come", "replace".
[[nodiscard]] const std::vector<std::string>& task_policy_names();
[[nodiscard]] std::optional<TaskPolicy> parse_task_policy(std::string_view text);

// Tuples that the switch left to the receiver, by the reason it had. The names are the list's
// (lib/abi/stats.def), which has their texts: collision, overflow, contention, no_region.
struct ReceiverTuples {
#define ASK_LEFT_STAT(cause, text) std::uint64_t cause = 0;
#include "lib/abi/stats.def"
    std::uint64_t long_key = 0;  // key or value fits no slot, nor VAR where that was agreed
    [[nodiscard]] std::uint64_t total() const {
        std::uint64_t sum = long_key;
#define ASK_LEFT_STAT(cause, text) sum += (cause);
#include "lib/abi/stats.def"
        return sum;
    }
};

// Where a send's or a task's tuples went. After success: tuples_in = tuples_merged + tuples_sent, and
// tuples_sent = tuples_switch + tuples_receiver.total(). From the same list: tuples_in, tuples_merged,
// tuples_sent, tuples_whole, tuples_switch, tuples_evicted, packets_sent, packets_acked_by_switch,
// slots_filled, slots_offered, retransmissions.
struct TaskStats {
#define ASK_SENDER_STAT(name, text) std::uint64_t name = 0;
#define ASK_TAKEN_STAT(name, field, text) std::uint64_t field = 0;
#define ASK_BESIDE_STAT(name, text) std::uint64_t name = 0;
#define ASK_PART_STAT(name, text) std::uint64_t name = 0;
#include "lib/abi/stats.def"
    ReceiverTuples tuples_receiver;
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
    bool cannot_repeat = false;  // of a receive: a sender cannot send everything once more
    std::string waits_for;       // of a send: what its receiver waits for, and takes nothing meanwhile
    std::uint64_t table_bytes_most = 0;  // of a receive with a reserve: what its tables have taken at most
};

}  // namespace ask::client
