// SPDX-License-Identifier: Apache-2.0
//
// What askctl prints about one side of agents and switches: channels, regions against their budget, what has
// ended. Text only: no I/O.
#pragma once

#include <string>

#include "proto/agent.pb.h"
#include "proto/switch.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

[[nodiscard]] std::string channels_text(const v1::AgentStatus& status);
[[nodiscard]] std::string channels_text(const v1::SwitchStatus& status);
template <typename Status>
[[nodiscard]] Json channels_json(const Status& status) {
    return to_json(status)["channels"];
}

// Who has how much of a switch's memory: regions of the SRAM budget, back levels of theirs, and what is left.
[[nodiscard]] std::string regions_text(const v1::SwitchStatus& status);
[[nodiscard]] Json regions_json(const v1::SwitchStatus& status);

// Tasks that have ended on this host, the latest first.
[[nodiscard]] std::string history_text(const v1::AgentStatus& status);
[[nodiscard]] Json history_json(const v1::AgentStatus& status);

}  // namespace ask::cli
