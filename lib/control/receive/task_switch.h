// SPDX-License-Identifier: Apache-2.0
//
// The switches that a task is open on: of each, who it is, what it granted, and how far what it aggregates
// has been fetched. A flow is aggregated by one of them, whose mark its packets have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/control/member/switch_port.h"
#include "lib/control/receive/swapper.h"
#include "lib/control/receive/task_arrivals.h"
#include "lib/rpc/flow_stats.h"
#include "proto/common.pb.h"

namespace ask {

// Client, mark and grant are constant once the task is open.
struct TaskSwitch {
    std::shared_ptr<SwitchPort> client;
    Mark mark;
    std::uint64_t nonce = 0;                 // of the region
    std::uint32_t aggregators = 0;           // granted, of an AA; 0: no region
    std::uint64_t back_bytes = 0;            // granted; 0: no back level
    std::string note;                        // why there is no region, or no back level
    std::shared_ptr<TaskArrivals> arrivals;  // null: its copies are not swapped

    // The session's own.
    std::unique_ptr<Swapper> swapper;  // null: not begun, over, or none
    std::uint64_t epoch = 0;           // of the last fetch
    bool closed = false;

    // Guarded by the registry's mutex.
    v1::FlowStats part;  // of all senders, while the task runs; at its end each sender has its own
};

// At most ASK_MAX_TASK_SWITCHES.
using TaskSwitches = std::vector<TaskSwitch>;

// Null: none of them has the mark.
[[nodiscard]] inline const TaskSwitch* find_switch(const TaskSwitches& switches, Mark mark) {
    const auto at = std::ranges::find(switches, mark, &TaskSwitch::mark);
    return at == switches.end() ? nullptr : &*at;
}

// The one that senders are sent through if all go through one; null: none.
[[nodiscard]] inline const TaskSwitch* offered_switch(const TaskSwitches& switches) {
    return switches.empty() ? nullptr : &switches.front();
}

// Whether it takes keys and values that fit no slot: flows through it may send VAR. Where it does not, LONG
// is shorter.
[[nodiscard]] inline bool takes_whole_keys(const TaskSwitch& at) {
    return at.mark.switch_id != 0 && at.back_bytes > 0;
}

// Aggregators of an AA, on all of them; 0: nothing is aggregated on the way.
[[nodiscard]] inline std::uint32_t granted(const TaskSwitches& switches) {
    std::uint32_t all = 0;
    for (const TaskSwitch& at : switches) {
        all += at.aggregators;
    }
    return all;
}

// Adds what the switches have counted so far to the sums of a task's senders, unless those have it already.
inline void add_running_parts(v1::FlowStats& sum, const TaskSwitches& switches) {
    if (has_switch_part(sum)) {
        return;
    }
    for (const TaskSwitch& at : switches) {
        add_switch_part(sum, at.part);
    }
}

// Swaps that are done.
[[nodiscard]] inline std::uint64_t swaps(const TaskSwitches& switches) {
    std::uint64_t all = 0;
    for (const TaskSwitch& at : switches) {
        all += at.epoch;
    }
    return all;
}

}  // namespace ask
