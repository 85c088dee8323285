// SPDX-License-Identifier: Apache-2.0
//
// Why tuples of a task were not added up on its switch, and what would help: for `askctl task explain` and
// the line that a command ends with. Text only: no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/client/task.h"

namespace ask::cli {

// What the task was opened with.
struct TaskSetup {
    std::uint32_t longest_key = 0;  // of those that fit a slot; 0: not known
    std::uint32_t aggregators = 0;  // 0: no region
    std::string note;               // why there is none
    bool whole_keys = false;        // a back level takes keys and values that fit no slot
    bool own_switches = false;      // each sender's own switch aggregates
    bool planned = false;           // the geometry was the agent's choice by the senders' samples
};

struct Cause {
    std::string name;
    std::uint64_t tuples = 0;  // that the receiver had to add up because of it
    std::string why;
    std::string advice;  // empty: nothing would help
};

// All causes, in the order of the statistics.
[[nodiscard]] std::vector<Cause> causes_of(const client::TaskStats& stats, const TaskSetup& setup);

// "task ID: 800,000 tuples, 92.0 % merged by senders, 7.0 % added up on the switch, 1.0 % here", and after a
// colon the one change that would help most, if there is one worth a word.
[[nodiscard]] std::string receive_summary(const std::string& task, const client::TaskStats& stats,
                                          const TaskSetup& setup);
[[nodiscard]] std::string send_summary(const std::string& task, const client::TaskStats& stats);

}  // namespace ask::cli
