// SPDX-License-Identifier: Apache-2.0
//
// Where a figure was measured.
#pragma once

#include <nlohmann/json.hpp>

namespace ask::bench {

// machine (CPU model, CPUs, memory in MiB), kernel, commit (environment ASK_COMMIT, set by tools/bench), date
// (UTC).
[[nodiscard]] nlohmann::ordered_json describe_machine();

}  // namespace ask::bench
