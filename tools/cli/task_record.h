// SPDX-License-Identifier: Apache-2.0
//
// `askctl task show`: the record that a host or a switch has of a task, under way or ended. Text only: no
// I/O. Why its tuples went where they did is explain.h's.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "proto/agent.pb.h"
#include "proto/switch.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

// Several, if the id was used again, or this host has more than one part in the task: those under way first,
// then the last ones that have ended. Streams of that name come first. kUnknown: there is none.
[[nodiscard]] Result<std::string> task_record_text(const std::string& id, const v1::AgentStatus& status);
[[nodiscard]] Result<std::string> task_record_text(const std::string& id, const v1::SwitchStatus& status);
// A list of what `tasks --all` and `streams` have of them.
[[nodiscard]] Result<Json> task_record_json(const std::string& id, const v1::AgentStatus& status);
[[nodiscard]] Result<Json> task_record_json(const std::string& id, const v1::SwitchStatus& status);

}  // namespace ask::cli
