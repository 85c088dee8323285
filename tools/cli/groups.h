// SPDX-License-Identifier: Apache-2.0
//
// `askctl groups` and `askctl group explain`: what agents and switches know of groups, and what is in their
// way. Text only: no I/O.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "proto/agent.pb.h"
#include "proto/switch.pb.h"
#include "tools/cli/explain.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

// One line each. `all`: those that have ended, too.
[[nodiscard]] std::string groups_text(const v1::AgentStatus& status, bool all);
[[nodiscard]] std::string groups_text(const v1::SwitchStatus& status, bool all);
[[nodiscard]] Json groups_json(const v1::AgentStatus& status, bool all);
[[nodiscard]] Json groups_json(const v1::SwitchStatus& status, bool all);
// All of one: the one under way, else the last that has ended. kUnknown: there is none of that id.
Result<std::string> group_text(const v1::AgentStatus& status, const std::string& id);
Result<std::string> group_text(const v1::SwitchStatus& status, const std::string& id);
Result<Json> group_json(const v1::AgentStatus& status, const std::string& id);
Result<Json> group_json(const v1::SwitchStatus& status, const std::string& id);

// Something in a group's way, the worst first, and what to do about it.
struct Finding {
    std::string what;
    std::string advice;  // empty: nothing
};
[[nodiscard]] std::vector<Finding> findings_of(const v1::AgentGroup& group, const TaskSources& sources);
// kUnknown: neither this host nor its switch knows it.
Result<std::string> explain_group(const std::string& id, const TaskSources& sources);
Result<Json> explain_group_json(const std::string& id, const TaskSources& sources);

}  // namespace ask::cli
