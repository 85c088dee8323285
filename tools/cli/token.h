// SPDX-License-Identifier: Apache-2.0
//
// What a task's senders show: never an argument, which everybody on the host could read.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace ask::cli {

// What stands in the file, but for a line break at its end; without a file, in the environment's ASK_TOKEN;
// else nothing.
[[nodiscard]] Result<std::string> read_token(const std::string& file);

}  // namespace ask::cli
