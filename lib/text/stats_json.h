// SPDX-License-Identifier: Apache-2.0
//
// Statistics as the commands' --stats writes them; docs/commands.md explains the keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/client/receive_session.h"
#include "lib/client/task.h"

namespace ask {

// A JSON object, indented, ending in a newline.
[[nodiscard]] std::string send_stats_json(const client::TaskStats& stats);
// `info`: what the task got when it was opened. `fetched`: aggregators that came from the switch at the end.
[[nodiscard]] std::string receive_stats_json(const client::ReceiveInfo& info, const client::TaskStats& stats,
                                             std::uint64_t fetched, std::uint64_t swaps,
                                             const std::vector<client::NamedStats>& senders);

}  // namespace ask
