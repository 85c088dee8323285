// SPDX-License-Identifier: Apache-2.0
//
// `askctl task explain`: in words, where a task's tuples went and why, and what it waits for; of a stream,
// how far it is. Text only: no I/O.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "proto/agent.pb.h"
#include "proto/switch.pb.h"
#include "tools/cli/relay_report.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

// What is known of a task from this host's agent, its switch, or both.
struct TaskSources {
    std::optional<v1::AgentStatus> agent;
    std::optional<v1::SwitchStatus> on_switch;
    std::string switch_trouble;         // why the switch could not be asked, if it should have been
    std::vector<RelayAnswer> relays{};  // of the task's plan
};

// Of this host's, the one whose relays know more of it; null: there is none with a plan of links.
[[nodiscard]] const v1::AgentTask* placed_task(const std::string& id, const v1::AgentStatus& status);

// kUnknown: neither knows the task, or a stream of that name.
Result<std::string> explain_task(const std::string& id, const TaskSources& sources);
// The same for scripts.
Result<Json> explain_task_json(const std::string& id, const TaskSources& sources);

}  // namespace ask::cli
