// SPDX-License-Identifier: Apache-2.0
//
// What askctl prints of relays' tasks. Text only: no I/O.
#pragma once

#include <span>
#include <string>

#include "lib/base/result.h"
#include "proto/relay.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

// What a relay that was asked has said.
struct RelayAnswer {
    std::string name;     // of the switch that it is beside; empty: as it calls itself
    std::string address;  // where it was asked
    Result<v1::RelayStatus> status;
};

// Tasks that a caller may see: those under way, and the last ones that have ended.
[[nodiscard]] std::string relay_tasks_text(std::span<const RelayAnswer> answers);
[[nodiscard]] Json relay_tasks_json(std::span<const RelayAnswer> answers);

}  // namespace ask::cli
