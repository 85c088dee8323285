// SPDX-License-Identifier: Apache-2.0
//
// What senders and receivers of ask.h have in common.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "lib/ask/ask.h"
#include "lib/base/result.h"
#include "lib/client/task.h"

namespace ask {

// kUsage: the caller's struct is not of this version.
Result<> check_struct_size(std::size_t is, std::size_t wanted, const char* init);
[[nodiscard]] std::chrono::milliseconds deadline_or_default(std::uint32_t deadline_ms);

// Fills the caller's, unless NULL; its size has been checked.
void put_stats(ask_task_stats* to, const client::TaskStats& from, std::uint32_t runs, std::uint32_t senders);
Result<> check_stats(const ask_task_stats* stats);

}  // namespace ask
