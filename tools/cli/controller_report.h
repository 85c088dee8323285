// SPDX-License-Identifier: Apache-2.0
//
// What askctl prints of the controller. Text only: no I/O.
#pragma once

#include <string>

#include "proto/controller.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

[[nodiscard]] std::string plans_text(const v1::ControllerStatus& status);
[[nodiscard]] Json plans_json(const v1::ControllerStatus& status);
// Only an operator is shown any.
[[nodiscard]] std::string relays_text(const v1::ControllerStatus& status);
[[nodiscard]] Json relays_json(const v1::ControllerStatus& status);

}  // namespace ask::cli
