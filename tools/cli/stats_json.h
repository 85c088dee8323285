// SPDX-License-Identifier: Apache-2.0
//
// Statistics as the commands' --stats writes them; docs/commands.md explains the keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/client/receive_session.h"
#include "lib/client/stream_send.h"
#include "lib/client/task.h"

namespace ask::cli {

// A JSON object, indented, ending in a newline. `runs`: how often everything was sent; more than once if a
// switch lost what it had. `lines_skipped`: malformed ones.
[[nodiscard]] std::string send_stats_json(const client::TaskStats& stats, std::uint32_t runs,
                                          std::uint64_t lines_skipped);
// Of a member of a stream, with what became of its windows.
[[nodiscard]] std::string stream_stats_json(const client::StreamSent& sent, std::uint64_t lines_skipped);
// `info`: what the task got when it was opened, last.
[[nodiscard]] std::string receive_stats_json(const client::ReceiveInfo& info,
                                             const client::ReceiveReport& report);

}  // namespace ask::cli
